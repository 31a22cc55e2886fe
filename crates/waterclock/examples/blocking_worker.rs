//! Threads that wait their turn: no async runtime, no timer thread, first come, first served.
//!
//!     cargo run -p waterclock --example blocking_worker

use std::thread;
use std::time::Duration;

use waterclock::{Clock, Limit, Limiter, MonotonicClock, WaitError};

fn main() {
    // 10 per second for all workers together, one at a time.
    let limiter = Limiter::new(Limit::per_second(10).with_capacity(1));
    let clock = MonotonicClock::default();
    let start = clock.now();
    let elapsed_ms = || (clock.now().as_nanos() - start.as_nanos()) / 1_000_000;

    thread::scope(|scope| {
        for worker in ["ann", "ben", "cleo"] {
            let (limiter, elapsed_ms) = (&limiter, &elapsed_ms);
            scope.spawn(move || {
                for job in 1..=4 {
                    limiter.wait().block().expect("one unit always fits, and there is no deadline");
                    println!("{:>5} ms  {worker} does job {job}", elapsed_ms());
                }
            });
        }
    });

    // Waits that cannot succeed fail at once and cost nothing.
    let too_much = limiter.wait_n(2).block();
    assert_eq!(too_much, Err(WaitError::Never));
    println!("{:>5} ms  cost 2: {}", elapsed_ms(), too_much.unwrap_err());
    limiter.wait().block().expect("as above");
    let too_late = limiter.wait().within(Duration::from_millis(10)).block();
    println!("{:>5} ms  within 10 ms: {too_late:?}", elapsed_ms());
}
