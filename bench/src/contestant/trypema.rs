use trypema::local::LocalRateLimiterProvider;
use trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder};

use super::{Contestant, Kind, lone};

pub fn keyed() -> Vec<Contestant<String>> {
    vec![Contestant::new("trypema (local, absolute)", Kind::Peer, |_| {
        // Its defaults: a window of 10 s in cells of 100 ms.
        let provider = LocalRateLimiterProvider::builder().build().expect("a valid provider");
        let rate = RateLimit::per_second_or_panic(1e9);
        lone(move |key: &String| {
            matches!(provider.absolute().inc(key, &rate, 1), RateLimitDecision::Allowed)
        })
    })]
}
