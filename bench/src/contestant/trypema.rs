use trypema::local::LocalRateLimiterProvider;
use trypema::{BucketSize, RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

use super::{Contestant, Kind, lone};

pub fn keyed() -> Vec<Contestant<String>> {
    vec![Contestant::new("trypema (local, absolute)", Kind::Peer, |_| {
        // The window of its README; long ones keep more per key.
        let provider = LocalRateLimiterProvider::builder()
            .window_size(WindowSize::minutes_or_panic(1))
            .bucket_size(BucketSize::milliseconds_or_panic(10))
            .build()
            .expect("a valid provider");
        let rate = RateLimit::per_second_or_panic(1e9);
        lone(move |key: &String| {
            matches!(provider.absolute().inc(key, &rate, 1), RateLimitDecision::Allowed)
        })
    })]
}
