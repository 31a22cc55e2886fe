//! Changing a policy at run time: limits with the same name and algorithm keep their usage.
//!
//!     cargo run -p waterclock --example change_policy

use std::time::Duration;

use waterclock::{KeyedLimiter, Limit, LimitError, Policy, SlidingWindow};

fn change(limiter: &KeyedLimiter<str>, from: &Policy, to: &Policy) {
    // Limits with another name or algorithm start fresh; list them before the change.
    for name in to.starts_fresh(from) {
        println!("  warning: `{name}` starts fresh");
    }
    limiter.set_policy(to.clone());
    for key in ["alice", "bob"] {
        println!("  {key:<5} has {} left", limiter.peek(key).remaining().unwrap_or(0));
    }
}

fn main() -> Result<(), LimitError> {
    let small = Policy::from(Limit::per_hour(100));
    let large = Policy::from(Limit::per_hour(1_000));
    let other = Policy::from(SlidingWindow::new(500, Duration::from_secs(3_600))?);

    let limiter: KeyedLimiter<str> = KeyedLimiter::new(small.clone());
    println!("100 per hour; alice uses 100, bob 30");
    let _ = (limiter.check_n("alice", 100), limiter.check_n("bob", 30));

    println!("raised to 1000 per hour:");
    change(&limiter, &small, &large);
    println!("lowered to 100 again:");
    change(&limiter, &large, &small);
    println!("another algorithm, 500 in a sliding hour:");
    change(&limiter, &small, &other);
    Ok(())
}
