//! A limit per calendar month, in the customer's time zone, together with a limit on bursts.
//!
//!     cargo run -p waterclock --features calendar --example monthly_quota

use std::time::Duration;

use waterclock::calendar::{CalendarUnit, fixed_window};
use waterclock::{KeyedLimiter, Limit, Policy};

fn days_and_hours(time: Duration) -> String {
    let hours = time.as_secs().div_ceil(3_600);
    format!("{} days and {} hours", hours / 24, hours % 24)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let monthly = fixed_window(1_000, CalendarUnit::Month, "Europe/Berlin")?;
    let policy = Policy::new(
        "plan",
        [Limit::per_second(600).with_name("burst"), monthly.with_name("monthly")],
    )?;
    let customers: KeyedLimiter<str> = KeyedLimiter::new(policy.clone());

    for cost in [600, 300, 300, 400] {
        let decision = customers.check_n("acme", cost);
        print!("acme uses {cost}: ");
        if decision.is_allowed() {
            println!("allowed, {} more right now", decision.remaining().unwrap_or(0));
        } else {
            let names: Vec<_> = policy.names(decision.refused_by()).collect();
            let wait = decision.retry_after().unwrap_or(Duration::MAX);
            println!("refused by {}, retry in {}", names.join(" and "), days_and_hours(wait));
        }
        // Let the burst limit refill.
        std::thread::sleep(Duration::from_millis(600));
    }
    // Windows follow the calendar: 28 to 31 days, an hour more or less with daylight saving time.
    let left = days_and_hours(customers.peek("acme").reset_after());
    println!("the month in Berlin ends in {left}");
    println!("{}", fixed_window(1, CalendarUnit::Day, "Europe/Atlantis").unwrap_err());
    Ok(())
}
