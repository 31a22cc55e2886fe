use waterclock::{
    CachedClock, Clock, Gcra, KeyedLimiter, Limit, Limiter, MonotonicClock, Policy, TscClock,
};

use super::{BURST, Contestant, Kind, PERIOD, Run, lone};
use crate::keys::Key;

pub const TSC: &str = "waterclock (tsc)";
pub const MONOTONIC: &str = "waterclock (monotonic)";
pub const CACHED: &str = "waterclock (cached clock)";
pub const BATCH: &str = "waterclock, batch of 16 (tsc)";

pub fn quota() -> Gcra {
    Gcra::new(1, PERIOD).expect("a valid period").with_capacity(BURST.into())
}

/// Room for all keys and as many again, and no less than by default: the budget is not measured.
pub fn limiter<K: Key, C: Clock>(
    policy: impl Into<Policy>,
    keys: usize,
    clock: C,
) -> KeyedLimiter<K, C> {
    KeyedLimiter::builder(policy).max_keys((2 * keys).max(1_000_000)).clock(clock).build()
}

pub fn checks<K: Key, C: Clock + 'static>(limiter: KeyedLimiter<K, C>) -> Run<K> {
    lone(move |key| limiter.check(key).is_allowed())
}

pub fn keyed<K: Key>() -> Vec<Contestant<K>> {
    vec![
        Contestant::new(TSC, Kind::Ours, |keys| {
            checks(limiter(quota(), keys, TscClock::default()))
        }),
        Contestant::new(MONOTONIC, Kind::Ours, |keys| {
            checks(limiter(quota(), keys, MonotonicClock::default()))
        }),
        Contestant::new(BATCH, Kind::Ours, |keys| {
            let limiter: KeyedLimiter<K, _> = limiter(quota(), keys, TscClock::default());
            Box::new(move |keys| {
                let mut admitted = 0;
                for batch in keys.chunks(16) {
                    limiter.check_each(batch, |decision| {
                        admitted += usize::from(decision.is_allowed());
                    });
                }
                admitted
            })
        }),
    ]
}

pub fn direct() -> Vec<Contestant<()>> {
    fn run<C: Clock + 'static>(clock: C) -> Run<()> {
        let limiter = Limiter::with_clock(Limit::per_second(1_000_000_000), clock);
        lone(move |()| limiter.check().is_allowed())
    }
    vec![
        Contestant::new(TSC, Kind::Ours, |_| run(TscClock::default())),
        Contestant::new(MONOTONIC, Kind::Ours, |_| run(MonotonicClock::default())),
        Contestant::new(CACHED, Kind::Ours, |_| run(CachedClock::default())),
    ]
}
