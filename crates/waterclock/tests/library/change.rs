//! What a key keeps when its policy changes: what was spent, whatever the algorithm.

use std::time::Duration;

use waterclock::{
    EvenSlots, FixedWindow, KeyedLimiter, LeakyBucket, Limit, Limiter, ManualClock, MinInterval,
    Policy, Quota, RollingWindow, SlidingWindow,
};

const MINUTE: Duration = Duration::from_secs(60);

/// What remains of `after` when `before` was exhausted and then replaced by it.
fn left(before: impl Into<Policy>, after: impl Into<Policy>) -> Option<u64> {
    let (before, after) = (before.into(), after.into());
    let clock = ManualClock::default();
    clock.advance(Duration::from_secs(3_600));
    let keyed: KeyedLimiter<str, _> =
        KeyedLimiter::builder(before.clone()).clock(clock.clone()).build();
    let mut single = Limiter::with_clock(before, clock);
    let spend = keyed.peek("alice").remaining().unwrap_or(1);
    assert!(keyed.check_n("alice", spend).is_allowed() && single.check_n(spend).is_allowed());
    keyed.set_policy(after.clone());
    single.set_policy(after);
    assert_eq!(keyed.peek("alice"), single.peek());
    assert_eq!(keyed.peek("bob").remaining(), keyed.peek("bob").limit(), "bob spent nothing");
    keyed.peek("alice").remaining()
}

#[test]
fn raised_limits_leave_the_difference() {
    assert_eq!(left(Limit::per_minute(100), Limit::per_minute(1_000)), Some(900));
    let leaky = |capacity, drip| LeakyBucket::new(capacity, drip, MINUTE).unwrap();
    assert_eq!(left(leaky(10, 2), leaky(15, 3)), Some(5));
    assert_eq!(left(leaky(10, 1), leaky(15, 1)), Some(5));
    let fixed = |limit| FixedWindow::new(limit, MINUTE).unwrap();
    assert_eq!(left(fixed(100), fixed(1_000)), Some(900));
    let sliding = |limit, per| SlidingWindow::new(limit, per).unwrap();
    assert_eq!(left(sliding(100, MINUTE), sliding(1_000, MINUTE)), Some(900));
    assert_eq!(left(sliding(100, MINUTE), sliding(1_000, 2 * MINUTE)), Some(900));
    let rolling = |limit, per| RollingWindow::new(limit, per).unwrap();
    assert_eq!(left(rolling(100, MINUTE), rolling(1_000, 2 * MINUTE)), Some(900));
    let quota = |limit| Quota::new(limit, MINUTE).unwrap();
    assert_eq!(left(quota(100), quota(1_000)), Some(900));
}

#[test]
fn lowered_limits_leave_nothing_and_gaps_stay() {
    assert_eq!(left(Limit::per_minute(1_000), Limit::per_minute(100)), Some(0));
    let gap = |every| MinInterval::new(every).unwrap();
    assert_eq!(left(gap(MINUTE), gap(2 * MINUTE)), Some(0));
    let slots = |limit| EvenSlots::new(limit, MINUTE).unwrap();
    assert_eq!(left(slots(1), slots(1)), Some(0));
    let spaced = |n| Limit::from(Limit::per_minute(n)).with_min_interval(MINUTE).unwrap();
    assert_eq!(left(spaced(10), spaced(100)), Some(0));
}

/// Lowered by mistake, and raised again at once: what docs/server.md says of each algorithm.
#[test]
fn what_a_lower_limit_cannot_hold_is_dropped_by_buckets_and_kept_by_windows() {
    fn left_again(limit: impl Fn(u64) -> Limit) -> Option<u64> {
        let mut limiter = Limiter::with_clock(limit(1_000), ManualClock::default());
        assert!(limiter.check_n(1_000).is_allowed());
        limiter.set_policy(limit(100));
        assert_eq!(limiter.peek().remaining(), Some(0));
        limiter.set_policy(limit(1_000));
        limiter.peek().remaining()
    }
    assert_eq!(left_again(|n| Limit::per_minute(n).into()), Some(900));
    assert_eq!(left_again(|n| LeakyBucket::new(n, 7, MINUTE).unwrap().into()), Some(900));
    assert_eq!(left_again(|n| FixedWindow::new(n, MINUTE).unwrap().into()), Some(0));
    assert_eq!(left_again(|n| SlidingWindow::new(n, MINUTE).unwrap().into()), Some(0));
    assert_eq!(left_again(|n| RollingWindow::new(n, MINUTE).unwrap().into()), Some(0));
}

#[test]
fn what_was_lost_was_not_spent_and_slots_move_to_the_new_grid() {
    let clock = ManualClock::default();
    clock.advance(Duration::from_millis(900));
    let second = Duration::from_secs(1);
    let mut idle = Limiter::with_clock(Quota::new(100, second).unwrap(), clock.clone());
    idle.set_policy(Quota::new(100, 60 * MINUTE).unwrap());
    assert_eq!(idle.peek().remaining(), Some(100), "an idle key spent nothing");
    let slots = |limit, per| EvenSlots::new(limit, per).unwrap();
    let mut daily = Limiter::with_clock(slots(1, 1_440 * MINUTE), clock.clone());
    assert!(daily.check().is_allowed());
    daily.set_policy(slots(10, second));
    clock.advance(second);
    assert!(daily.check().is_allowed(), "a tenth of a second later the old slot is no reason");
}

#[test]
fn a_change_to_nothing_is_survived() {
    let keyed: KeyedLimiter<str, _> =
        KeyedLimiter::builder(Limit::per_second(10)).clock(ManualClock::default()).build();
    assert!(keyed.check_n("alice", 5).is_allowed());
    keyed.set_policy(Limit::per_second(0));
    let decision = keyed.check("alice");
    assert_eq!((decision.remaining(), decision.next_unit()), (Some(0), None));
    assert!(!decision.is_allowed());
}

#[test]
fn another_algorithm_or_name_starts_fresh_and_says_so() {
    let sliding = SlidingWindow::new(50, MINUTE).unwrap();
    assert_eq!(left(Limit::per_minute(100), sliding), Some(50));
    let old = Policy::from(Limit::per_minute(100));
    let renamed = Limit::from(Limit::per_minute(100)).with_name("other");
    let new = Policy::new("p", [renamed, Limit::per_minute(7).into()]).unwrap();
    assert_eq!(new.starts_fresh(&old).collect::<Vec<_>>(), ["other"]);
}
