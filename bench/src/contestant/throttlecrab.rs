use std::sync::Mutex;
use std::time::SystemTime;

use throttlecrab::{PeriodicStore, RateLimiter};

use super::{BURST, Contestant, Kind, PERIOD, lone};

/// One check at `now`. It needs `&mut`, so sharing it takes a lock.
pub fn check(limiter: &Mutex<RateLimiter<PeriodicStore>>, key: &str, now: SystemTime) -> bool {
    let mut limiter = limiter.lock().expect("no panic");
    let seconds = PERIOD.as_secs() as i64;
    limiter.rate_limit(key, BURST.into(), 1, seconds, 1, now).is_ok_and(|(admits, _)| admits)
}

pub fn keyed() -> Vec<Contestant<String>> {
    vec![Contestant::new("throttlecrab (periodic, in a mutex)", Kind::Peer, |_| {
        let limiter = Mutex::new(RateLimiter::new(PeriodicStore::new()));
        lone(move |key: &String| check(&limiter, key, SystemTime::now()))
    })]
}
