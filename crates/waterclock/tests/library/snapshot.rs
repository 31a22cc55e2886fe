//! What a store remembers survives a restart, and nothing else gets in.

use std::time::Duration;

use waterclock::store::now_or_never;
use waterclock::{
    EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit, ManualClock, MemoryStore, MinInterval, Mode,
    Policy, Quota, RestoreError, Restored, RollingWindow, SlidingWindow, Store, Timestamp,
};

const MINUTE: Duration = Duration::from_secs(60);
const START: Timestamp = Timestamp::from_nanos(1_794_000_000_123_456_789);

/// One policy of each kind, and one of several.
fn policies() -> Vec<Policy> {
    let two_words = Gcra::new(7, MINUTE).unwrap();
    let debt = Limit::per_minute(7).with_overdraft(true);
    let leaky = LeakyBucket::new(7, 2, MINUTE).unwrap();
    let fixed = FixedWindow::new(7, MINUTE).unwrap();
    let rolling = RollingWindow::new(7, MINUTE).unwrap();
    let spaced = Limit::from(Limit::per_minute(7)).with_min_interval(MINUTE / 30).unwrap();
    let zone = "Asia/Kathmandu";
    let daily =
        waterclock::calendar::fixed_window(7, waterclock::calendar::CalendarUnit::Day, zone)
            .unwrap();
    let named = |name: &str, limit: Limit| Policy::new(name, [limit]).unwrap();
    vec![
        named("gcra", Limit::per_minute(6).into()),
        named("two-words", two_words.into()),
        named("debt", debt.into()),
        named("leaky", leaky.into()),
        named("fixed", fixed.clone().into()),
        named("epoch", FixedWindow::aligned(7, MINUTE).unwrap().into()),
        named("daily", daily.into()),
        named("sliding", SlidingWindow::new(7, MINUTE).unwrap().into()),
        named("rolling", rolling.into()),
        named("buckets", RollingWindow::bucketed(7, MINUTE, 6).unwrap().into()),
        named("quota", Quota::new(7, MINUTE).unwrap().into()),
        named("slots", EvenSlots::new(7, MINUTE).unwrap().into()),
        named("interval", MinInterval::new(MINUTE / 10).unwrap().into()),
        named("spaced", spaced.clone()),
        named("uniform", fixed.into()).with_mode(Mode::CountRefusals).unwrap(),
        Policy::new("several", [spaced, leaky.into(), rolling.into()]).unwrap(),
    ]
}

async fn store(
    max_keys: usize,
    clock: &ManualClock,
    policies: Vec<Policy>,
) -> MemoryStore<ManualClock> {
    let store = MemoryStore::new(max_keys, clock.clone());
    for policy in policies {
        store.set_policy(policy).await.unwrap();
    }
    store
}

/// A store in which much happened, up to `clock`'s time.
async fn busy(max_keys: usize, keys: u64, clock: &ManualClock) -> MemoryStore<ManualClock> {
    clock.set(START);
    let store = store(max_keys, clock, policies()).await;
    let mut dice = fastrand::Rng::with_seed(max_keys as u64);
    for policy in policies() {
        for _ in 0..5 * keys {
            clock.advance(Duration::from_nanos(dice.u64(0..100_000_000)));
            let key = dice.u64(0..keys).to_le_bytes();
            let _ =
                now_or_never(store.check_n(policy.name(), &key, dice.u64(0..4))).unwrap().unwrap();
        }
    }
    store
}

fn saved(store: &MemoryStore<ManualClock>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let saved = store.snapshot(&mut bytes).unwrap();
    assert_eq!(saved.bytes, bytes.len() as u64);
    bytes
}

fn assert_same(a: &MemoryStore<ManualClock>, b: &MemoryStore<ManualClock>, keys: u64) {
    for policy in policies() {
        for key in 0..keys {
            let peek = |store: &MemoryStore<_>| {
                now_or_never(store.peek_n(policy.name(), &key.to_le_bytes(), 2)).unwrap()
            };
            assert_eq!(peek(a), peek(b), "key {key} of {}", policy.name());
        }
    }
}

#[tokio::test]
async fn every_kind_of_state_comes_back() {
    let clock = ManualClock::default();
    let before = busy(10_000, 50, &clock).await;
    let bytes = saved(&before);
    let after = store(10_000, &clock, policies()).await;
    let restored = after.restore(&mut &bytes[..]).unwrap();
    assert!(restored.keys > 50 && restored.keys <= before.len());
    assert_eq!((restored.unknown_keys, restored.written_at), (0, clock_now(&clock)));
    assert_eq!(restored.keys, after.len());
    for _ in 0..8 {
        assert_same(&before, &after, 50);
        let mut dice = fastrand::Rng::with_seed(3);
        for policy in policies() {
            let key = dice.u64(0..50).to_le_bytes();
            assert_eq!(
                now_or_never(before.check_n(policy.name(), &key, 1)).unwrap(),
                now_or_never(after.check_n(policy.name(), &key, 1)).unwrap()
            );
        }
        clock.advance(Duration::from_secs(9));
    }
}

fn clock_now(clock: &ManualClock) -> Timestamp {
    waterclock::Clock::now(clock)
}

#[tokio::test]
async fn keys_that_found_no_place_find_no_budget_afterwards() {
    let (clock, one_policy) = (ManualClock::default(), || vec![policies().remove(0)]);
    clock.set(START);
    let before = store(5_000, &clock, one_policy()).await;
    for key in 0..40_000_u64 {
        let _ = now_or_never(before.check_n("gcra", &key.to_le_bytes(), 6)).unwrap().unwrap();
    }
    let bytes = saved(&before);
    // With as many shards, with fewer and with more.
    for max_keys in [5_000, 100, 100_000] {
        let after = store(max_keys, &clock, one_policy()).await;
        assert_eq!(after.restore(&mut &bytes[..]).unwrap().keys, 5_000);
        let admitted = |key: &u64| {
            now_or_never(after.check_n("gcra", &key.to_le_bytes(), 1))
                .unwrap()
                .unwrap()
                .is_allowed()
        };
        assert_eq!((0..50_000).find(admitted), None, "{max_keys}");
    }
}

#[tokio::test]
async fn other_numbers_carry_what_was_spent_and_unknown_policies_are_named() {
    let clock = ManualClock::default();
    clock.set(START);
    let named = |name, limit| Policy::new(name, [Limit::per_minute(limit)]).unwrap();
    let before = store(1_000, &clock, vec![named("a", 100), named("b", 100)]).await;
    assert!(now_or_never(before.check_n("a", b"alice", 60)).unwrap().unwrap().is_allowed());
    assert!(now_or_never(before.check_n("b", b"alice", 60)).unwrap().unwrap().is_allowed());
    let after = store(1_000, &clock, vec![named("a", 1_000)]).await;
    let restored = after.restore(&mut &saved(&before)[..]).unwrap();
    assert_eq!(
        now_or_never(after.peek_n("a", b"alice", 1)).unwrap().unwrap().remaining(),
        Some(940)
    );
    assert_eq!((restored.keys, restored.unknown_keys), (1, 1));
    assert_eq!(restored.unknown_policies, ["b"]);
    clock.advance(2 * MINUTE);
    let later = store(1_000, &clock, vec![named("a", 100), named("b", 100)]).await;
    let restored = later.restore(&mut &saved(&before)[..]).unwrap();
    assert_eq!((restored, later.len()), (restored_nothing(clock_now(&clock)), 0));
}

fn restored_nothing(written_at: Timestamp) -> Restored {
    let mut nothing = Restored::default();
    nothing.written_at = written_at;
    nothing
}

#[tokio::test]
async fn an_earlier_clock_grants_nothing_and_freezes_nothing() {
    let clock = ManualClock::default();
    let before = busy(10_000, 20, &clock).await;
    let bytes = saved(&before);
    let used = |store: &MemoryStore<ManualClock>, name: &str, key: u64| {
        let decision = now_or_never(store.peek_n(name, &key.to_le_bytes(), 1)).unwrap().unwrap();
        decision.limit().unwrap_or(1) - decision.remaining().unwrap_or(1)
    };
    let names: Vec<String> = policies().iter().map(|p| p.name().to_owned()).collect();
    let pairs: Vec<_> = names.iter().flat_map(|n| (0..20).map(move |k| (n.clone(), k))).collect();
    let spent: Vec<u64> = pairs.iter().map(|(name, key)| used(&before, name, *key)).collect();
    clock.set(START);
    let after = store(10_000, &clock, policies()).await;
    after.restore(&mut &bytes[..]).unwrap();
    for ((name, key), spent) in pairs.iter().zip(spent) {
        // A quota's or a slot's room depends on where in its period it is now.
        if !["quota", "slots"].contains(&&**name) {
            let now = used(&after, name, *key);
            assert!(now >= spent, "{name}: {now} of {spent} are still used");
        }
        let decision = now_or_never(after.peek_n(name, &key.to_le_bytes(), 1)).unwrap().unwrap();
        let longest = if name == "daily" { 1_440 * MINUTE } else { 5 * MINUTE };
        assert!(decision.reset_after() <= longest, "{name}: {decision:?}");
    }
}

#[tokio::test]
async fn a_seed_is_taken_before_the_first_check_only() {
    let clock = ManualClock::default();
    let before = busy(1_000, 5, &clock).await;
    let bytes = saved(&before);
    let after = store(1_000, &clock, policies()).await;
    let _ = now_or_never(after.check_n("gcra", b"alice", 1)).unwrap().unwrap();
    assert!(matches!(after.restore(&mut &bytes[..]), Err(RestoreError::InUse)));
    assert_eq!(after.len(), 1);
    // The same seed will do, and what is there already is not forgotten.
    assert!(before.restore(&mut &bytes[..]).is_ok());
}

/// As the format sums its words.
fn sum(words: &[u8]) -> u64 {
    words.chunks_exact(8).fold(0_u64, |sum, word| {
        let word = u64::from_le_bytes(word.try_into().unwrap());
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    })
}

/// Restores what may be anything; whatever it is, checks go on.
async fn survives(bytes: &[u8], clock: &ManualClock) -> Result<Restored, RestoreError> {
    let store = store(100, clock, policies()).await;
    let restored = store.restore(&mut &*bytes);
    assert!(restored.is_ok() || store.is_empty(), "restored by half");
    if restored.is_ok() {
        for policy in policies() {
            for key in 0..4_u64 {
                let _ = now_or_never(store.check_n(policy.name(), &key.to_le_bytes(), 1))
                    .unwrap()
                    .unwrap();
            }
        }
        clock.advance(MINUTE / 7);
        store.sweep();
    }
    restored
}

#[tokio::test]
async fn what_is_cut_changed_or_foreign_is_refused_whole() {
    let clock = ManualClock::default();
    let bytes = saved(&busy(100, 4, &clock).await);
    assert!(survives(&bytes, &clock).await.is_ok());
    for cut in 0..bytes.len() {
        let error = survives(&bytes[..cut], &clock).await.unwrap_err();
        assert!(matches!(error, RestoreError::Damaged | RestoreError::Foreign), "{cut}: {error}");
    }
    let longer = [&bytes[..], &[0; 8]].concat();
    assert!(matches!(survives(&longer, &clock).await, Err(RestoreError::Damaged)));
    let mut dice = fastrand::Rng::with_seed(11);
    for _ in 0..3_000 {
        let mut changed = bytes.clone();
        changed[dice.usize(0..bytes.len())] ^= 1 << dice.u8(0..8);
        assert!(survives(&changed, &clock).await.is_err());
        let noise: Vec<u8> = (0..dice.usize(0..400)).map(|_| dice.u8(..)).collect();
        assert!(matches!(survives(&noise, &clock).await, Err(RestoreError::Foreign)));
    }
    let mut newer = bytes.clone();
    newer[8] = 9;
    assert!(matches!(survives(&newer, &clock).await, Err(RestoreError::Version(9))));
}

#[tokio::test]
async fn a_sum_that_holds_over_nonsense_does_no_harm() {
    let clock = ManualClock::default();
    let bytes = saved(&busy(100, 4, &clock).await);
    let (words, mut refused) = (bytes.len() / 8 - 1, 0);
    let mut dice = fastrand::Rng::with_seed(12);
    for _ in 0..20_000 {
        let mut changed = bytes.clone();
        for _ in 0..dice.usize(1..4) {
            let at = 8 * dice.usize(2..words);
            let word = match dice.u8(0..4) {
                0 => dice.u64(..),
                1 => u64::MAX >> dice.u32(0..64),
                2 => dice.u64(0..9),
                _ => {
                    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) ^ 1 << dice.u32(0..64)
                }
            };
            changed[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let holds = sum(&changed[..8 * words]);
        changed[8 * words..].copy_from_slice(&holds.to_le_bytes());
        refused += u32::from(survives(&changed, &clock).await.is_err());
    }
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn checks_go_on_while_a_snapshot_is_written() {
    let clock = ManualClock::default();
    clock.set(START);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let policy = |n| Policy::new("p", [Limit::per_hour(n)]).unwrap();
    let store = runtime.block_on(store(100_000, &clock, vec![policy(1_000)]));
    let after = MemoryStore::new(100_000, clock.clone());
    runtime.block_on(after.set_policy(policy(1_000))).unwrap();
    std::thread::scope(|scope| {
        let (again, handle) = (store.clone(), store.policy("p").unwrap());
        scope.spawn(move || {
            for i in 0..500_000_u64 {
                let _ = handle.check(&(i % 5_000).to_le_bytes(), 1);
            }
        });
        scope.spawn(move || {
            for n in [1_001, 1_000] {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(again.set_policy(policy(n))).unwrap();
            }
        });
        for _ in 0..5 {
            saved(&store);
        }
    });
    after.restore(&mut &saved(&store)[..]).unwrap();
    for key in 0..5_000_u64 {
        let left =
            now_or_never(after.peek_n("p", &key.to_le_bytes(), 1)).unwrap().unwrap().remaining();
        assert_eq!(left, Some(900), "100 of each key are spent");
    }
}
