//! The short ways into a memory store say what the long one says.

use std::time::Duration;

use waterclock::store::now_or_never;
use waterclock::{
    Charge, KeyedLimiter, Limit, ManualClock, MemoryStore, Policy, RollingWindow, SlidingWindow,
    Store, StoreError, Verb,
};

fn policies() -> [Policy; 3] {
    let minute = Duration::from_secs(60);
    let sliding = SlidingWindow::new(7, minute).unwrap();
    let both = [Limit::from(Limit::per_minute(9)), Limit::from(sliding)];
    [
        Policy::new("gcra", [Limit::per_minute(5)]).unwrap(),
        Policy::new("rolling", [RollingWindow::new(5, minute).unwrap()]).unwrap(),
        Policy::new("both", both).unwrap(),
    ]
}

async fn store(clock: &ManualClock, max_keys: usize) -> MemoryStore<ManualClock> {
    let store = MemoryStore::new(max_keys, clock.clone());
    for policy in policies() {
        store.set_policy(policy).await.unwrap();
    }
    store
}

#[tokio::test]
async fn check_peek_handle_and_apply_agree() {
    let clock = ManualClock::default();
    let stores =
        [store(&clock, 1_000).await, store(&clock, 1_000).await, store(&clock, 1_000).await];
    let mut dice = fastrand::Rng::with_seed(7);
    for name in ["gcra", "rolling", "both"] {
        let handle = stores[2].policy(name).unwrap();
        for _ in 0..2_000 {
            clock.advance(Duration::from_millis(dice.u64(0..4_000)));
            let (key, cost) = ([dice.u8(0..5)], dice.u64(0..4));
            let (verb, peeks) = if dice.bool() { (Verb::Check, false) } else { (Verb::Peek, true) };
            let charge = Charge::new(name, &key, cost);
            let long = stores[0].apply(verb, &[charge]).await.unwrap()[0].decision;
            let (short, held) = if peeks {
                (
                    now_or_never(stores[1].peek_n(name, &key, cost)).unwrap().unwrap(),
                    handle.peek(&key, cost),
                )
            } else {
                (
                    now_or_never(stores[1].check_n(name, &key, cost)).unwrap().unwrap(),
                    handle.check(&key, cost),
                )
            };
            assert_eq!((short, held), (long, long), "{name}");
        }
    }
    assert_eq!(stores[0].len(), stores[1].len());
}

#[tokio::test]
async fn a_batch_decides_as_a_limiter_does() {
    let clock = ManualClock::default();
    let store = store(&clock, 10_000).await;
    let limiter: KeyedLimiter<[u8], _> =
        KeyedLimiter::builder(Limit::per_minute(5)).clock(clock.clone()).build();
    let keys: Vec<[u8; 8]> = (0..1_000_u64).map(|i| (i % 77).to_le_bytes()).collect();
    let batch = store.policy("gcra").unwrap().check_batch(keys.iter().map(|key| (&key[..], 1)));
    let one_by_one: Vec<_> = keys.iter().map(|key| limiter.check(&key[..])).collect();
    assert_eq!(batch, one_by_one);
    let costs = [(&b"alice"[..], 4), (b"alice", 2), (b"alice", 1)];
    let batch = store.policy("gcra").unwrap().check_batch(costs);
    assert_eq!(batch.iter().map(|d| d.granted()).collect::<Vec<_>>(), [4, 0, 1]);
}

#[tokio::test]
async fn a_handle_follows_its_policy_and_makes_room_among_all() {
    let clock = ManualClock::default();
    let store = store(&clock, 10).await;
    let handle = store.policy("gcra").unwrap();
    assert!(handle.check(b"alice", 5).is_allowed());
    store.set_policy(Policy::new("gcra", [Limit::per_minute(8)]).unwrap()).await.unwrap();
    assert_eq!(handle.peek(b"alice", 1).remaining(), Some(3));
    assert_eq!(handle.policy().limits().len(), 1);
    for key in 0..20_u8 {
        let _ = now_or_never(store.check_n("rolling", &[key], 1)).unwrap().unwrap();
    }
    clock.advance(Duration::from_secs(600));
    // The other policy's keys are fresh by now: their places are found.
    let decisions = handle.check_batch((0..10_u8).map(|_| (&b"bob"[..], 1)));
    assert!(decisions[7].is_allowed() && !decisions[8].is_allowed());
    assert!(store.len() <= 10);
}

#[tokio::test]
async fn an_unknown_policy_is_named() {
    let store = store(&ManualClock::default(), 10).await;
    let unknown = StoreError::UnknownPolicy("nope".to_owned());
    assert_eq!(now_or_never(store.check_n("nope", b"alice", 1)).unwrap(), Err(unknown.clone()));
    assert_eq!(now_or_never(store.peek_n("nope", b"alice", 1)).unwrap(), Err(unknown));
    assert!(store.policy("nope").is_none());
}
