//! Bounded memory: live keys are never evicted, a flood opens no budget, room is found again.

use std::time::Duration;

use waterclock::{KeyedLimiter, Limit, ManualClock};

fn limiter(max_keys: usize, clock: &ManualClock) -> KeyedLimiter<u64, ManualClock> {
    let policy = Limit::per_minute(10);
    KeyedLimiter::builder(policy).max_keys(max_keys).clock(clock.clone()).build()
}

#[test]
fn a_flood_changes_no_key_and_opens_no_budget() {
    let clock = ManualClock::default();
    let limiter = limiter(1_000, &clock);
    for key in 0..1_000 {
        assert!(limiter.check_n(&key, 10).is_allowed());
    }
    // Two shards, so two overflow entries with one limit's worth each.
    let flood: u64 = (1_000..100_000).map(|key| u64::from(limiter.check(&key).is_allowed())).sum();
    assert!(flood <= 2 * 10, "{flood} admitted");
    assert_eq!(limiter.len(), 1_000);
    for key in 0..1_000 {
        assert_eq!(limiter.check(&key).remaining(), Some(0), "key {key} was evicted");
    }
}

#[test]
fn a_key_promoted_later_inherits_what_it_may_have_spent() {
    let clock = ManualClock::default();
    let limiter = limiter(2, &clock);
    let _ = (limiter.check(&1), limiter.check_n(&2, 10));
    // Key 3 finds no place and spends the overflow entry of its shard.
    while limiter.check(&3).is_allowed() {}
    clock.advance(Duration::from_secs(7));
    // Key 1 is fresh by now: there is room, but not a fresh budget.
    let decision = limiter.peek(&3);
    assert_eq!(decision.remaining(), Some(1), "one came back in 7 s");
    assert!(limiter.check(&3).is_allowed() && !limiter.check(&3).is_allowed());
}

#[test]
fn keys_that_became_fresh_make_room() {
    let clock = ManualClock::default();
    let limiter = limiter(1_000, &clock);
    for round in 0..20 {
        for key in 0..1_000 {
            let decision = limiter.check(&(round * 1_000 + key));
            assert_eq!(decision.remaining(), Some(9), "round {round}, key {key}");
        }
        clock.advance(Duration::from_secs(60));
    }
    limiter.sweep();
    assert!(limiter.is_empty());
}

#[test]
fn refused_and_peeked_keys_take_no_place() {
    let clock = ManualClock::default();
    let limiter = limiter(1_000, &clock);
    for key in 0..1_000 {
        assert!(!limiter.check_n(&key, 11).is_allowed());
        assert!(limiter.check_n(&key, 0).is_allowed() && limiter.peek(&key).is_allowed());
    }
    assert!(limiter.is_empty());
}
