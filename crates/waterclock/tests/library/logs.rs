//! Bounded memory of logs: what happens to rolling windows when it is used up.

use std::time::Duration;

use waterclock::store::now_or_never;
use waterclock::{
    Clock, ErrorRate, KeyedLimiter, Limit, ManualClock, MemoryStore, Outcome, Policy,
    RollingWindow, Store,
};

const WINDOW: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(10);

fn rolling(limit: u64) -> RollingWindow {
    RollingWindow::new(limit, WINDOW).unwrap()
}

fn store(max_bytes: usize, policies: &[&str], limit: u64) -> MemoryStore<ManualClock> {
    let store = MemoryStore::new(100_000, ManualClock::default());
    store.set_max_bytes(max_bytes);
    for name in policies {
        let policy = Policy::new(name, [rolling(limit)]).unwrap();
        now_or_never(store.set_policy(policy)).unwrap().unwrap();
    }
    store
}

fn check(store: &MemoryStore<ManualClock>, policy: &str, key: &[u8]) -> waterclock::Decision {
    now_or_never(store.check(policy, key)).unwrap().unwrap()
}

#[test]
fn long_logs_stay_within_the_bound_and_admit_no_more() {
    let (limit, max_bytes) = (10_000, 64 << 10);
    let clock = ManualClock::default();
    let limiter: KeyedLimiter<u64, _> =
        KeyedLimiter::builder(rolling(limit)).max_bytes(max_bytes).clock(clock.clone()).build();
    // Three keys of up to 160 KB each, in 64 KiB.
    let mut admitted: [Vec<u64>; 3] = Default::default();
    for _ in 0..20_000 {
        clock.advance(STEP);
        for key in 0..3 {
            if limiter.check(&key).is_allowed() {
                admitted[usize::try_from(key).unwrap()].push(clock.now().as_nanos());
            }
        }
    }
    for times in &admitted {
        let window = u64::try_from(WINDOW.as_nanos()).unwrap();
        let ends = times.iter().enumerate();
        let most = ends.map(|(i, at)| times[..=i].iter().filter(|t| **t + window > *at).count());
        assert!(most.max().unwrap_or(0) as u64 <= limit);
        // 200 s at 100 a second: 20 000 were offered, and a window admits 6 000 of its own accord.
        assert!(times.len() >= 10_000, "{}: coarser, not closed", times.len());
    }
}

#[test]
fn the_bytes_are_counted_and_given_back() {
    let store = store(1 << 20, &["a", "b"], 1_000);
    for key in 0..200_u32 {
        for _ in 0..=key {
            assert!(check(&store, "a", &key.to_be_bytes()).is_allowed());
        }
    }
    // All at one instant: one entry each.
    let one_each = store.log_bytes();
    assert!((200 * 100..200 * 120).contains(&one_each), "{one_each}");
    assert_eq!(store.usage_of("a").unwrap().log_bytes, one_each);
    assert_eq!(store.usage_of("b").unwrap().log_bytes, 0);
    assert_eq!(store.purge("a"), Some(200));
    assert_eq!((store.log_bytes(), store.len()), (0, 0));
    assert_eq!(check(&store, "a", b"key").remaining(), Some(999));
    now_or_never(store.remove_policy("a")).unwrap().unwrap();
    assert_eq!(store.log_bytes(), 0);
    assert_eq!(store.purge("a"), None);
}

#[test]
fn a_flood_of_logs_leaves_other_policies_their_share() {
    let clock = ManualClock::default();
    let store = MemoryStore::new(100_000, clock.clone());
    store.set_max_bytes(1 << 20);
    for name in ["flooded", "other"] {
        let policy = Policy::new(name, [rolling(1_000)]).unwrap();
        now_or_never(store.set_policy(policy)).unwrap().unwrap();
    }
    // 400 keys of 300 entries would take 2 MB and more.
    for _ in 0..300 {
        clock.advance(Duration::from_millis(1));
        for key in 0..400_u32 {
            assert!(check(&store, "flooded", &key.to_be_bytes()).is_allowed());
        }
    }
    assert!(store.coarsened() > 0);
    assert!(store.log_bytes() <= 1 << 20, "{}", store.log_bytes());
    // The share of the other policy, a quarter of all, is exact to the last entry.
    let before = store.coarsened();
    for _ in 0..900 {
        clock.advance(Duration::from_millis(1));
        for key in 0..12_u8 {
            assert!(check(&store, "other", &[key]).is_allowed());
        }
    }
    assert_eq!(store.coarsened(), before);
    let usage = store.usage_of("other").unwrap();
    assert_eq!(usage.guaranteed_log_bytes, 1 << 18);
    assert!(usage.log_bytes > 12 * 900 * 16 && usage.log_bytes <= usage.guaranteed_log_bytes);
    // Newcomers of the flooded policy are served: longer logs get coarser for them.
    let newcomers = (1_000..2_000_u32)
        .filter(|key| check(&store, "flooded", &key.to_be_bytes()).remaining() == Some(999));
    assert!(newcomers.count() >= 950);
    assert!(store.log_bytes() <= 1 << 20, "{}", store.log_bytes());
    // What keys have spent stays spent: 300 of 1 000 were used, and none has become free.
    for key in 0..400_u32 {
        let left = check(&store, "flooded", &key.to_be_bytes()).remaining();
        assert_eq!(left, Some(699), "key {key}");
    }
}

#[test]
fn a_snapshot_that_is_too_large_comes_back_coarser() {
    let clock = ManualClock::default();
    let large = MemoryStore::new(1_000, clock.clone());
    let small = MemoryStore::new(1_000, clock.clone());
    small.set_max_bytes(16 << 10);
    for store in [&large, &small] {
        let policy = Policy::new("a", [rolling(1_000)]).unwrap();
        now_or_never(store.set_policy(policy)).unwrap().unwrap();
    }
    for _ in 0..500 {
        clock.advance(Duration::from_millis(1));
        for key in 0..20_u8 {
            assert!(check(&large, "a", &[key]).is_allowed());
        }
    }
    let mut saved = Vec::new();
    large.snapshot(&mut saved).unwrap();
    small.restore(&mut &saved[..]).unwrap();
    assert!(small.log_bytes() <= 2 * (16 << 10), "{}", small.log_bytes());
    for key in 0..20_u8 {
        assert_eq!(now_or_never(small.peek("a", [key])).unwrap().unwrap().remaining(), Some(500));
    }
}

#[test]
fn a_shortage_of_logs_evicts_no_key_of_another_policy() {
    let store = MemoryStore::new(10_000, ManualClock::default());
    // Memory for about 146 logs of one entry.
    store.set_max_bytes(32 << 10);
    let one = RollingWindow::new(1, WINDOW).unwrap();
    for policy in [Policy::new("logs", [one]), Policy::new("many", [Limit::per_hour(1_000)])] {
        now_or_never(store.set_policy(policy.unwrap())).unwrap().unwrap();
    }
    for key in 0..6_000_u32 {
        assert!(check(&store, "many", &key.to_be_bytes()).is_allowed());
    }
    for key in 0..2_000_u32 {
        let _ = check(&store, "logs", &key.to_be_bytes());
    }
    assert_eq!((store.evicted(), store.usage_of("many").unwrap().keys), (0, 6_000));
    assert!(store.log_bytes() <= 32 << 10, "{}", store.log_bytes());
}

#[test]
fn a_breaker_opens_with_next_to_no_memory() {
    let breaker = ErrorRate::new(5_000, WINDOW, 100, WINDOW).unwrap();
    let clock = ManualClock::default();
    let limiter: KeyedLimiter<u64, _> =
        KeyedLimiter::builder(breaker).max_bytes(256).clock(clock.clone()).build();
    for _ in 0..50 {
        clock.advance(STEP);
        limiter.report(&1, Outcome::Ok);
    }
    for report in 0..100 {
        assert!(limiter.check(&1).is_allowed() || report >= 50, "too early, after {report}");
        clock.advance(STEP);
        limiter.report(&1, Outcome::Error);
    }
    assert!(!limiter.check(&1).is_allowed());
}
