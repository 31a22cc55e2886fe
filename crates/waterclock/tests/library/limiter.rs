//! One word or many, one key or many: the same answers.

use std::time::Duration;

use waterclock::{
    CachedClock, Clock, EvenSlots, KeyedLimiter, Limit, Limiter, ManualClock, MinInterval,
    MonotonicClock, Policy, Quota, RollingWindow, Timestamp,
};

const SECOND: Duration = Duration::from_secs(1);

/// 3 per second with capacity 3, asked every millisecond from 0 to 30 000 ms inclusive.
fn admitted_of_30_001(start: Timestamp) -> usize {
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(Limit::per_second(3), clock.clone());
    (0..=30_000)
        .filter(|ms| {
            clock.set(start.after(Duration::from_millis(*ms)));
            limiter.check().is_allowed()
        })
        .count()
}

#[test]
fn a_third_of_a_second_is_not_truncated() {
    assert_eq!(admitted_of_30_001(Timestamp::ZERO), 93);
    assert_eq!(admitted_of_30_001(Timestamp::from_micros(1_794_000_000_123_456)), 93);
}

#[test]
fn one_key_of_many_is_decided_like_the_only_one() {
    let policies: [Policy; 5] = [
        Limit::per_second(7).with_capacity(3).into(),
        MinInterval::new(SECOND).unwrap().into(),
        EvenSlots::new(4, SECOND).unwrap().into(),
        RollingWindow::new(5, SECOND).unwrap().into(),
        Policy::new(
            "both",
            [Limit::from(Limit::per_second(5)), Limit::from(Quota::new(9, 2 * SECOND).unwrap())],
        )
        .unwrap(),
    ];
    for policy in policies {
        let clock = ManualClock::default();
        let one = Limiter::with_clock(policy.clone(), clock.clone());
        let many: KeyedLimiter<str, _> = KeyedLimiter::builder(policy).clock(clock.clone()).build();
        for i in 0..2_000_u64 {
            clock.advance(Duration::from_millis(i * 37 % 211));
            let cost = i * 7 % 4;
            match i % 11 {
                3 => (one.refund(cost), many.refund("alice", cost)),
                7 if i % 5 == 0 => (one.reset(), many.reset("alice")),
                _ => ((), ()),
            };
            assert_eq!(one.peek_n(cost), many.peek_n("alice", cost));
            assert_eq!(one.check_n(cost), many.check_n("alice", cost), "call {i}");
        }
    }
}

#[test]
fn zero_admits_nothing_and_says_never() {
    let decision = Limiter::new(Limit::per_second(0)).check();
    assert!(!decision.is_allowed());
    assert_eq!((decision.limit(), decision.retry_after()), (Some(0), None));
}

#[test]
fn batches_answer_like_single_calls_in_order() {
    let clock = ManualClock::default();
    let policy = || Policy::from(Limit::per_second(1).with_capacity(3));
    let batch: KeyedLimiter<u64, _> = KeyedLimiter::builder(policy()).clock(clock.clone()).build();
    let single: KeyedLimiter<u64, _> = KeyedLimiter::builder(policy()).clock(clock).build();
    let keys: Vec<u64> = (0..1_000).map(|i| i * i % 97).collect();
    let one_by_one: Vec<_> = keys.iter().map(|key| single.check(key)).collect();
    assert_eq!(batch.check_batch(&keys), one_by_one);
    assert!(batch.check_batch(&[]).is_empty());
}

#[test]
fn clocks_go_forward() {
    let (cached, monotonic) = (CachedClock::default(), MonotonicClock::default());
    let before = cached.now();
    let mut last = monotonic.now();
    while monotonic.now() == last {}
    for _ in 0..1_000 {
        let now = monotonic.now();
        assert!(now >= last);
        last = now;
    }
    assert_eq!(cached.now(), before, "a cached clock stands still");
    cached.refresh();
    assert!(cached.now() > before);
}
