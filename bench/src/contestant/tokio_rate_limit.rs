use tokio_rate_limit::RateLimiter;

use super::{BURST, Contestant, Kind, lone};

pub fn keyed() -> Vec<Contestant<String>> {
    vec![Contestant::new("tokio-rate-limit (Instant)", Kind::Peer, |_| {
        // Its slowest rate.
        let limiter = RateLimiter::builder().requests_per_second(1).burst(BURST.into()).build();
        let limiter = limiter.expect("a valid quota");
        lone(move |key: &String| limiter.check(key).permitted)
    })]
}
