//! Costs that are only known afterwards: charged whatever there is room for.

use std::time::Duration;

use waterclock::{
    Charge, Gcra, KeyedLimiter, Limit, Limiter, ManualClock, MemoryStore, Policy, RollingWindow,
    Store, Timestamp, Verb,
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_debt_is_paid_back_before_anything_is_admitted() {
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(Limit::per_second(10), clock.clone());
    assert!(limiter.check_n(10).is_allowed());
    limiter.debit(15);
    let refused = limiter.check();
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(1_600)));
    assert_eq!(refused.reset_after(), Duration::from_millis(2_500));
    clock.advance(Duration::from_millis(1_600));
    assert!(limiter.check().is_allowed());
    assert!(!limiter.check().is_allowed());
}

#[test]
fn one_word_holds_the_deepest_debt_at_the_last_instant() {
    let clock = ManualClock::default();
    clock.set(Timestamp::MAX);
    // Thirds of a nanosecond are the finest that one word tells apart.
    let limiter = Limiter::with_clock(Gcra::new(3, SECOND).unwrap(), clock);
    limiter.debit(u64::MAX);
    let years = limiter.peek().reset_after().as_secs() as f64 / (365.25 * 86_400.0);
    assert!((39.999..=40.0).contains(&years), "{years}");
    let deepest = limiter.peek();
    limiter.debit(1);
    assert_eq!(limiter.peek(), deepest, "no debt is deeper");
    limiter.refund(1);
    assert_eq!(deepest.reset_after() - limiter.peek().reset_after(), SECOND / 3);
}

#[test]
fn debits_without_end_cost_a_rolling_window_no_memory_and_admit_nothing() {
    let clock = ManualClock::default();
    let rolling = RollingWindow::new(3, SECOND).unwrap();
    let limiter: KeyedLimiter<str, _> =
        KeyedLimiter::builder(rolling).max_keys(4).clock(clock.clone()).build();
    for _ in 0..100_000 {
        limiter.debit("alice", 1);
        clock.advance(Duration::from_nanos(1));
    }
    // The newest three decide, and they are still told apart.
    let one = limiter.peek_n("alice", 1).retry_after().unwrap();
    let three = limiter.peek_n("alice", 3).retry_after().unwrap();
    assert_eq!(three, SECOND - Duration::from_nanos(1));
    assert_eq!(three - one, Duration::from_nanos(2));
    clock.advance(three);
    assert_eq!(limiter.peek("alice").remaining(), Some(3));
}

#[tokio::test]
async fn several_keys_are_debited_and_answer_as_a_peek() {
    let store = MemoryStore::new(16, ManualClock::default());
    store.set_policy(Policy::new("p", [Limit::per_minute(5)]).unwrap()).await.unwrap();
    let charge = |key, cost: u64| Charge::new("p", key, cost);
    let both = [charge(&b"alice"[..], 7), charge(b"bob", 2), charge(b"alice", 1)];
    let answers = store.apply(Verb::Debit, &both).await.unwrap();
    assert_eq!(answers[0].decision.remaining(), Some(0));
    assert_eq!(answers[0], answers[2], "the same key twice is summed");
    assert_eq!(answers[1].decision.remaining(), Some(3));
    let back = store.apply(Verb::Refund, &[charge(b"alice", 4)]).await.unwrap();
    assert_eq!(back[0].decision.remaining(), Some(1), "eight were owed, four are given back");
}

#[test]
fn a_debt_outlives_a_change_of_the_policy_and_nothing_else_does() {
    let clock = ManualClock::default();
    let limiter: KeyedLimiter<str, _> =
        KeyedLimiter::builder(Limit::per_minute(100)).clock(clock).build();
    limiter.debit("owes", 130);
    let _ = limiter.check_n("spent", 90);
    limiter.set_policy(Limit::per_minute(100).with_capacity(10));
    let wait = |key| limiter.peek(key).retry_after().unwrap().as_millis();
    assert_eq!(wait("spent"), 600, "exhausted is as far as a lowered limit goes");
    assert_eq!(wait("owes"), 31 * 600, "what was owed beyond the old limit is owed still");
}

#[test]
fn without_a_place_a_key_owes_what_it_shares() {
    let limiter: KeyedLimiter<u32, _> = KeyedLimiter::builder(Limit::per_hour(10))
        .max_keys(1)
        .clock(ManualClock::default())
        .build();
    for key in 0..100 {
        limiter.debit(&key, 20);
    }
    assert!((0..200).all(|key| !limiter.check(&key).is_allowed()), "no flood opens a budget");
}
