//! Tests control time: a day passes instantly, and nothing is flaky.
//!
//!     cargo run -p waterclock --example own_clock
//!     cargo test -p waterclock --example own_clock

use std::time::Duration;

use waterclock::{Clock, KeyedLimiter, Limit, ManualClock};

/// Three wrong passwords at once, then one more every ten minutes. `C` is the real clock in the
/// program and a manual one in tests.
struct Logins<C> {
    wrong: KeyedLimiter<str, C>,
}

impl<C: Clock> Logins<C> {
    fn new(clock: C) -> Self {
        let policy = Limit::per_hour(6).with_capacity(3);
        Self { wrong: KeyedLimiter::builder(policy).clock(clock).build() }
    }

    /// Charges first and refunds a correct password. Peeking first and charging later would let many concurrent guesses
    /// through.
    fn log_in(&self, user: &str, password: &str) -> Result<(), String> {
        let decision = self.wrong.check(user);
        if let Some(wait) = decision.retry_after().filter(|wait| !wait.is_zero()) {
            return Err(format!("locked for {} minutes", wait.as_secs_f64() / 60.0));
        }
        if password == "correct horse" {
            self.wrong.refund(user, 1);
            return Ok(());
        }
        Err(format!("wrong, {} tries left", decision.remaining().unwrap_or(0)))
    }
}

fn main() {
    let clock = ManualClock::default();
    let logins = Logins::new(clock.clone());
    for (minutes, password) in
        [(0, "1234"), (0, "abcd"), (0, "qwerty"), (0, "correct horse"), (10, "correct horse")]
    {
        clock.advance(Duration::from_secs(60 * minutes));
        println!("{minutes:>2} min later, {password:<13}  {:?}", logins.log_in("alice", password));
    }
}

#[test]
fn a_locked_account_opens_after_ten_minutes_and_not_a_nanosecond_earlier() {
    let clock = ManualClock::default();
    let logins = Logins::new(clock.clone());
    for _ in 0..3 {
        assert!(logins.log_in("alice", "guess").is_err());
    }
    clock.advance(Duration::from_secs(600) - Duration::from_nanos(1));
    assert!(logins.log_in("alice", "correct horse").is_err());
    clock.advance(Duration::from_nanos(1));
    assert!(logins.log_in("alice", "correct horse").is_ok());
}
