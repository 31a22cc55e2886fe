//! One budget for the whole program: check, and retry when the decision says so.
//!
//!     cargo run -p waterclock --example hello

use std::thread;

use waterclock::{Limit, Limiter};

fn main() {
    // Three at once; one returns every third of a second, exactly.
    let limiter = Limiter::new(Limit::per_second(3));
    for request in 1..=6 {
        let mut decision = limiter.check();
        while !decision.is_allowed() {
            // `None` would mean that the cost can never pass. A cost of 1 can.
            let wait = decision.retry_after().expect("one unit fits into three");
            println!("request {request}: refused, retry in {wait:?}");
            thread::sleep(wait);
            decision = limiter.check();
        }
        let left = decision.remaining().unwrap_or(0);
        println!(
            "request {request}: allowed, {left} left, all back in {:?}",
            decision.reset_after()
        );
    }
}
