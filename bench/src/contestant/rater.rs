use std::net::IpAddr;

use rater::{IpRateLimiterManager, RateLimiter, RateLimiterConfig};

use super::{BURST, Contestant, Kind, PERIOD, lone};

const NAME: &str = "rater (approximate)";

pub fn direct() -> Vec<Contestant<()>> {
    vec![Contestant::new(NAME, Kind::Approximate, |_| {
        let limiter = RateLimiter::new(1_000_000_000, 1_000_000_000);
        lone(move |()| limiter.try_acquire())
    })]
}

pub fn keyed() -> Vec<Contestant<IpAddr>> {
    let contestant = Contestant::new(NAME, Kind::Approximate, |_| {
        let period = PERIOD.as_millis().try_into().expect("an hour");
        let config = RateLimiterConfig::new(BURST.into(), 1, period);
        let manager = IpRateLimiterManager::new(config);
        lone(move |address| manager.try_acquire(*address))
    });
    // It refuses every further address.
    vec![Contestant { most_keys: 10_000, ..contestant }]
}
