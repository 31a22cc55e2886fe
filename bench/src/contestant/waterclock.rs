use waterclock::{
    CachedClock, Clock, Gcra, KeyedLimiter, Limit, Limiter, MonotonicClock, Policy, TscClock,
};

use super::{BURST, Contestant, Kind, PERIOD, Run, lone};
use crate::keys::Key;

/// What `new()` gives: the guarded time stamp counter.
pub const DEFAULT: &str = "waterclock (default)";
pub const MONOTONIC: &str = "waterclock (monotonic)";
pub const CACHED: &str = "waterclock (cached clock)";
pub const BATCH: &str = "waterclock, batch of 16";

pub fn quota() -> Gcra {
    Gcra::new(1, PERIOD).expect("a valid period").with_capacity(BURST.into())
}

/// Room for all keys and as many again, and no less than by default: the budget is not measured.
pub fn limiter<K: Key, C: Clock>(
    policy: impl Into<Policy>,
    keys: usize,
    clock: C,
) -> KeyedLimiter<K, C> {
    KeyedLimiter::builder(policy).max_keys(room(keys)).clock(clock).build()
}

fn room(keys: usize) -> usize {
    (2 * keys).max(1_000_000)
}

pub fn checks<K: Key, C: Clock + 'static>(limiter: KeyedLimiter<K, C>) -> Run<K> {
    lone(move |key| limiter.check(key).is_allowed())
}

pub fn keyed<K: Key>() -> Vec<Contestant<K>> {
    vec![
        Contestant::new(DEFAULT, Kind::Ours, |keys| {
            checks(KeyedLimiter::builder(quota()).max_keys(room(keys)).build())
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
        Contestant::new(DEFAULT, Kind::Ours, |_| {
            let limiter = Limiter::new(Limit::per_second(1_000_000_000));
            lone(move |()| limiter.check().is_allowed())
        }),
        Contestant::new(MONOTONIC, Kind::Ours, |_| run(MonotonicClock::default())),
        // Renewed once per turn of many decisions, as by an event loop: otherwise the quota would be used up.
        Contestant::new(CACHED, Kind::Ours, |_| {
            let clock = CachedClock::default();
            let check = run(clock.clone());
            Box::new(move |keys| {
                clock.refresh();
                check(keys)
            })
        }),
    ]
}
