//! Several limits in one policy admit together or not at all, and a refusal names the limits that refused.
//!
//!     cargo run -p waterclock --example several_limits

use std::time::Duration;

use waterclock::{Limit, Limiter, ManualClock, Policy, RollingWindow};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let burst = Limit::per_second(3).with_name("burst");
    let hourly = RollingWindow::new(8, Duration::from_secs(3_600))?;
    let policy = Policy::new("api", [burst, Limit::from(hourly).with_name("hourly")])?;

    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(policy, clock.clone());
    println!("3 per second and 8 in any hour\n");

    for (seconds, cost) in [(0, 2), (0, 2), (1, 3), (1, 3), (1, 3), (1, 1), (3_600, 3)] {
        clock.advance(Duration::from_secs(seconds));
        let decision = limiter.check_n(cost);
        print!("{seconds:>4} s later, cost {cost}: ");
        if decision.is_allowed() {
            println!("allowed, {} left", decision.remaining().unwrap_or(0));
            continue;
        }
        // A decision has positions; the policy knows the names.
        let names: Vec<_> = limiter.policy().names(decision.refused_by()).collect();
        let wait = decision.retry_after().unwrap_or(Duration::MAX);
        println!("refused by {}, nothing charged, retry in {wait:?}", names.join(" and "));
    }
    Ok(())
}
