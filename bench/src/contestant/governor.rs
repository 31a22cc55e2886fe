use std::num::NonZeroU32;

use governor::clock::{Clock, MonotonicClock, QuantaClock};
use governor::{Quota, RateLimiter};

use super::{BURST, Contestant, Kind, PERIOD, Run, lone};
use crate::keys::Key;

pub const TSC: &str = "governor (quanta)";
pub const MONOTONIC: &str = "governor (Instant)";

pub fn quota() -> Quota {
    let burst = NonZeroU32::new(BURST).expect("not zero");
    Quota::with_period(PERIOD).expect("a valid period").allow_burst(burst)
}

pub fn keyed<K: Key>() -> Vec<Contestant<K>> {
    fn run<K: Key, C: Clock + Send + Sync + 'static>(clock: C) -> Run<K>
    where
        C::Instant: Send + Sync,
    {
        let limiter = RateLimiter::dashmap_with_clock(quota(), clock);
        lone(move |key| limiter.check_key(key).is_ok())
    }
    vec![
        Contestant::new(TSC, Kind::Peer, |_| run(QuantaClock::default())),
        Contestant::new(MONOTONIC, Kind::Peer, |_| run(MonotonicClock)),
    ]
}

pub fn direct() -> Vec<Contestant<()>> {
    fn run<C: Clock + Send + Sync + 'static>(clock: C) -> Run<()>
    where
        C::Instant: Send + Sync,
    {
        let billion = NonZeroU32::new(1_000_000_000).expect("not zero");
        let limiter = RateLimiter::direct_with_clock(Quota::per_second(billion), clock);
        lone(move |()| limiter.check().is_ok())
    }
    vec![
        Contestant::new(TSC, Kind::Peer, |_| run(QuantaClock::default())),
        Contestant::new(MONOTONIC, Kind::Peer, |_| run(MonotonicClock)),
    ]
}
