//! Bounded memory: what gives way when it is full, and to whom.

use std::time::Duration;

use waterclock::store::now_or_never;
use waterclock::{
    Charge, Concurrency, ErrorRate, FixedWindow, KeyedLimiter, Limit, ManualClock, MemoryStore,
    Mode, OnFull, OnStoreError, Policy, Quota, RollingWindow, Serving, SlidingWindow, Store, Verb,
};

fn limiter(max_keys: usize, clock: &ManualClock) -> KeyedLimiter<u64, ManualClock> {
    let builder = KeyedLimiter::builder(Limit::per_minute(10)).max_keys(max_keys);
    builder.on_full(OnFull::Refuse).clock(clock.clone()).build()
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

const HOUR: Duration = Duration::from_secs(3_600);

async fn store(max_keys: usize, policies: &[(&str, u64)]) -> MemoryStore<ManualClock> {
    let store = MemoryStore::new(max_keys, ManualClock::default());
    for (name, limit) in policies {
        store.set_policy(Policy::new(name, [Limit::per_hour(*limit)]).unwrap()).await.unwrap();
    }
    store
}

/// How many of these keys are refused one unit.
async fn refused(
    store: &MemoryStore<ManualClock>,
    policy: &str,
    keys: std::ops::Range<u32>,
) -> usize {
    let mut refused = 0;
    for key in keys {
        let decision = store.check(policy, key.to_le_bytes()).await.unwrap();
        refused += usize::from(!decision.is_allowed());
    }
    refused
}

#[tokio::test]
async fn a_flood_refuses_no_newcomer() {
    let store = store(10_000, &[("flooded", 10), ("calm", 10)]).await;
    assert_eq!(refused(&store, "flooded", 0..60_000).await, 0);
    assert_eq!(refused(&store, "flooded", 60_000..61_000).await, 0);
    assert_eq!(refused(&store, "calm", 0..2_500).await, 0);
    assert!(store.len() <= 10_000 && store.evicted() > 50_000 && store.overflowed() == 0);
    // What the calm policy has in its share stays, however long the flood goes on.
    assert_eq!(refused(&store, "flooded", 61_000..161_000).await, 0);
    assert_eq!(store.len_of("calm"), 2_500);
}

/// Many new keys in one check, and checks of several threads at once.
#[test]
fn a_flood_in_batches_refuses_no_newcomer() {
    let store = now_or_never(store(10_000, &[("flooded", 10), ("calm", 10)])).unwrap();
    let batch = |first: u32| {
        let keys: Vec<[u8; 4]> = (first..first + 1_024).map(u32::to_le_bytes).collect();
        let charge = |key| Charge::new("flooded", key, 1);
        let charges: Vec<Charge<'_>> = keys.iter().map(|key| charge(&key[..])).collect();
        let answers = now_or_never(store.apply(Verb::Check, &charges)).unwrap().unwrap();
        assert!(answers.iter().all(|answer| answer.decision.is_allowed()), "{first}");
    };
    (0..20).for_each(|number| batch(number << 10));
    std::thread::scope(|scope| {
        for thread in 1..4 {
            let batch = &batch;
            scope.spawn(move || (0..20).for_each(|number| batch(thread << 20 | number << 10)));
        }
    });
    assert_eq!(store.overflowed(), 0);
}

#[tokio::test]
async fn a_flood_of_keys_that_stay_leaves_every_other_policy_its_share() {
    let policies = [("once", 1), ("calm", 10), ("quiet", 10)];
    let store = store(12_000, &policies).await;
    // Each key of `once` is exhausted at once, for an hour: none of them gives way.
    assert!(refused(&store, "once", 0..50_000).await > 0);
    assert_eq!((store.evicted(), store.len_of("once")), (0, 8_000));
    for policy in ["calm", "quiet"] {
        assert_eq!(refused(&store, policy, 0..2_000).await, 0, "{policy}");
        assert_eq!(store.len_of(policy), 2_000);
    }
    assert!(store.overflowed() > 0);
    // Beyond its share, a policy's own keys give way.
    assert_eq!(refused(&store, "calm", 2_000..20_000).await, 0);
    assert_eq!(store.len_of("quiet"), 2_000);
    for key in 0..8_000_u32 {
        assert_eq!(store.peek("once", key.to_le_bytes()).await.unwrap().remaining(), Some(0));
    }
}

#[tokio::test]
async fn what_is_borrowed_goes_back_to_whoever_has_less() {
    let store = store(12_000, &[("first", 10), ("second", 10), ("third", 10)]).await;
    assert_eq!(refused(&store, "first", 0..20_000).await, 0);
    assert!(store.len_of("first") > 7_500);
    assert_eq!(refused(&store, "second", 0..20_000).await, 0);
    let (first, second) = (store.len_of("first"), store.len_of("second"));
    assert!(
        (4_500..5_500).contains(&first) && (4_500..5_500).contains(&second),
        "{first}, {second}"
    );
}

#[tokio::test]
async fn shares_follow_the_policies() {
    let store = store(1_000, &[("first", 1)]).await;
    assert_eq!(refused(&store, "first", 0..1_000).await, 0, "a lone policy has all places");
    let policy = Policy::new("second", [Limit::per_hour(10)]).unwrap();
    store.set_policy(policy).await.unwrap();
    // No key of the first gives way, so that the second one's come to share an overflow entry until they are fresh.
    assert!(refused(&store, "second", 0..50).await > 0);
    store.remove_policy("first").await.unwrap();
    store.set_policy(Policy::new("third", [Limit::per_hour(1)]).unwrap()).await.unwrap();
    assert_eq!((store.len(), refused(&store, "third", 0..750).await), (0, 0));
    assert!(
        refused(&store, "third", 750..1_000).await > 0,
        "the second one's share is kept for it"
    );
}

#[tokio::test]
async fn a_policy_that_refuses_forgets_nothing() {
    let store = store(2_000, &[("other", 10)]).await;
    let serving = Serving::new(OnStoreError::Local).with_on_full(OnFull::Refuse);
    let strict = Policy::new("strict", [Limit::per_hour(10)]).unwrap();
    store.set_policy_as(strict, serving).await.unwrap();
    assert!(refused(&store, "strict", 0..10_000).await > 0);
    assert_eq!((store.len_of("strict"), store.evicted()), (1_500, 0));
    assert_eq!(refused(&store, "other", 0..10_000).await, 0);
    assert_eq!(store.len_of("strict"), 1_500);
}

/// Policies of ten units, and how many of them a key may have used that is forgotten for another.
#[test]
fn only_what_is_at_most_half_used_is_forgotten() {
    let refusals = Policy::from(FixedWindow::new(10, HOUR).unwrap());
    let kinds: [(Policy, u64); 9] = [
        (Limit::per_hour(10).into(), 5),
        (FixedWindow::new(10, HOUR).unwrap().into(), 5),
        (SlidingWindow::new(10, HOUR).unwrap().into(), 5),
        (RollingWindow::new(10, HOUR).unwrap().into(), 5),
        (Quota::new(10, HOUR).unwrap().into(), 5),
        (Limit::from(Limit::per_hour(10)).with_min_interval(HOUR).unwrap().into(), 0),
        (refusals.with_mode(Mode::CountRefusals).unwrap(), 0),
        (Concurrency::new(10, HOUR).unwrap().into(), 0),
        (ErrorRate::new(5_000, HOUR, 1, HOUR).unwrap().into(), 0),
    ];
    for (policy, forgotten) in kinds {
        for used in 1..=11 {
            let limiter: KeyedLimiter<str, _> = KeyedLimiter::builder(policy.clone())
                .max_keys(1)
                .clock(ManualClock::default())
                .build();
            let fresh = limiter.peek("old");
            let held = limiter.reserve_n("old", used.min(10)).unwrap();
            limiter.debit("old", used - used.min(10));
            limiter.report("old", false);
            assert_ne!(limiter.peek("old"), fresh, "{used} of {policy:?}");
            let _ = limiter.reserve_n("new", 1);
            limiter.report("new", false);
            let is_forgotten = limiter.peek("old") == fresh;
            assert_eq!(is_forgotten, used <= forgotten, "{used} of {policy:?}");
            drop(held);
        }
    }
}

#[tokio::test]
async fn a_flood_forgets_no_key_of_a_policy_within_its_share() {
    let store = store(1_000, &[("flooded", 1), ("honest", 1_000)]).await;
    for key in 0..100_u32 {
        let charged = store.check_n("honest", key.to_be_bytes(), 100).await.unwrap();
        assert_eq!(charged.remaining(), Some(900));
    }
    // Keys that are exhausted at once, so that none of them gives way.
    for key in 0..20_000_u32 {
        let _ = store.check("flooded", key.to_be_bytes()).await.unwrap();
    }
    assert_eq!(store.evicted(), 0);
    for key in 0..100_u32 {
        let left = store.peek("honest", key.to_be_bytes()).await.unwrap();
        assert_eq!(left.remaining(), Some(900), "key {key} was forgotten for the flood");
    }
}
