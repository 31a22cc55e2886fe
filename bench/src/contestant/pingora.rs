use pingora_limits::rate::Rate;

use super::{BURST, Contestant, Kind, PERIOD, lone};

pub fn keyed() -> Vec<Contestant<String>> {
    vec![Contestant::new("pingora-limits (approximate)", Kind::Approximate, |_| {
        let rate = Rate::new(PERIOD);
        // A sketch counts strangers too: what it would refuse is not the question here.
        lone(move |key| {
            std::hint::black_box(rate.observe(key, 1) <= BURST as isize);
            true
        })
    })]
}
