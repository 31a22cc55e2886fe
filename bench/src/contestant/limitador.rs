use std::collections::HashMap;

use limitador::RateLimiter;
use limitador::limit::{Limit, Namespace};

use super::{BURST, Contestant, Kind, PERIOD, lone};

pub fn keyed() -> Vec<Contestant<String>> {
    let contestant = Contestant::new("limitador (in memory)", Kind::Peer, |keys| {
        let limiter = RateLimiter::new(2 * keys as u64);
        let user = "user".try_into().expect("a variable");
        let conditions: [limitador::limit::Predicate; 0] = [];
        limiter.add_limit(Limit::new("bench", BURST.into(), PERIOD.as_secs(), conditions, [user]));
        let namespace = Namespace::from("bench");
        lone(move |key: &String| {
            let request = HashMap::from([("user".to_owned(), key.clone())]).into();
            let answer = limiter.check_rate_limited_and_update(&namespace, &request, 1);
            !answer.expect("memory does not fail").limited
        })
    });
    // About a kilobyte per key.
    vec![Contestant { most_keys: 1_000_000, ..contestant }]
}
