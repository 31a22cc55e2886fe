//! P12: real threads never admit more than a serial history.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use waterclock::{KeyedLimiter, Limit, Limiter, ManualClock, Policy, RollingWindow, SlidingWindow};

const THREADS: u64 = 8;
const CALLS: u64 = 20_000;

fn policies() -> Vec<Policy> {
    let hour = Duration::from_secs(3_600);
    let gcra = Limit::per_hour(1_000);
    let rolling = RollingWindow::new(1_000, hour).unwrap();
    let sliding = SlidingWindow::new(1_000, hour).unwrap();
    let both = Policy::new("both", [Limit::from(gcra), Limit::from(sliding)]).unwrap();
    vec![gcra.into(), rolling.into(), sliding.into(), both]
}

fn admitted(check: impl Fn(u64) -> bool + Sync) -> u64 {
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let own = (0..CALLS).filter(|i| check(*i)).count();
                admitted.fetch_add(own as u64, Ordering::Relaxed);
            });
        }
    });
    admitted.into_inner()
}

#[test]
fn one_budget_is_admitted_exactly_once() {
    for policy in policies() {
        let limiter = Limiter::with_clock(policy, ManualClock::default());
        assert_eq!(admitted(|_| limiter.check().is_allowed()), 1_000);
    }
}

#[test]
fn each_key_is_admitted_exactly_once_while_the_table_grows() {
    for policy in policies() {
        let limiter: KeyedLimiter<u64, _> =
            KeyedLimiter::builder(policy).clock(ManualClock::default()).build();
        // 100 keys, each asked 1 600 times and holding 1 000; and many others that come once.
        let check = |i: u64| {
            let _ = limiter.check(&(1_000_000 + i));
            limiter.check(&(i % 100)).is_allowed()
        };
        assert_eq!(admitted(check), 100 * 1_000);
    }
}

#[test]
fn changing_the_policy_meanwhile_refills_nothing() {
    let limiter: KeyedLimiter<u64, _> =
        KeyedLimiter::builder(Limit::per_hour(1_000)).clock(ManualClock::default()).build();
    let check = |i: u64| {
        if i % 1_000 == 7 {
            limiter.set_policy(Limit::per_hour(1_000));
            limiter.sweep();
        }
        limiter.check(&0).is_allowed()
    };
    assert_eq!(admitted(check), 1_000);
}
