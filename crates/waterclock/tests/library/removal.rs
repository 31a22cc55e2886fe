//! Removing policies frees their keys; keys without a slot are counted.

use std::time::Duration;

use waterclock::store::now_or_never;
use waterclock::{
    Limit, ManualClock, MemoryStore, Migration, OnFull, OnStoreError, Policy, RollingWindow,
    Serving, Store, StoreError,
};

fn hourly(name: &str, limit: u64) -> Policy {
    let hour = Duration::from_secs(3_600);
    Policy::new(name, [RollingWindow::new(limit, hour).unwrap()]).unwrap()
}

#[tokio::test]
async fn a_policy_goes_with_its_keys_and_its_variants() {
    let store = MemoryStore::new(1_000, ManualClock::default());
    store.set_policy(hourly("a", 5)).await.unwrap();
    store.set_policy(hourly("b", 5)).await.unwrap();
    store.set_variant("a", hourly("a2", 9), Migration::Units).await.unwrap();
    for key in 0..100_u8 {
        let _ = (
            now_or_never(store.check_n("a", &[key], 1)).unwrap().unwrap(),
            now_or_never(store.check_n("b", &[key % 10], 1)).unwrap().unwrap(),
        );
    }
    assert_eq!((store.len_of("a"), store.len_of("a2"), store.len_of("b")), (100, 100, 10));
    assert_eq!((store.len(), store.len_of("nope")), (110, 0));
    store.remove_policy("a").await.unwrap();
    assert_eq!((store.len(), store.len_of("a"), store.len_of("b")), (10, 0, 10));
    for name in ["a", "a2"] {
        let unknown = StoreError::UnknownPolicy(name.to_owned());
        assert_eq!(now_or_never(store.check_n(name, b"x", 1)).unwrap(), Err(unknown.clone()));
        assert_eq!(store.remove_policy(name).await, Err(unknown));
    }
    // The same name again is another policy.
    store.set_policy(hourly("a", 5)).await.unwrap();
    assert_eq!(now_or_never(store.peek_n("a", &[1], 1)).unwrap().unwrap().remaining(), Some(5));
}

#[tokio::test]
async fn the_keys_of_a_variant_go_on_under_its_base() {
    let store = MemoryStore::new(1_000, ManualClock::default());
    store.set_policy(hourly("a", 5)).await.unwrap();
    store.set_variant("a", hourly("a2", 9), Migration::Units).await.unwrap();
    let handle = store.policy("a2").unwrap();
    assert!(handle.check(b"alice", 4).is_allowed());
    store.remove_policy("a2").await.unwrap();
    assert_eq!(now_or_never(store.peek_n("a", b"alice", 1)).unwrap().unwrap().remaining(), Some(1));
    assert_eq!(handle.peek(b"alice", 1).limit(), Some(5), "an old handle is answered by the base");
    store.set_variant("a", hourly("a3", 7), Migration::Units).await.unwrap();
    assert_eq!(handle.peek(b"alice", 1).limit(), Some(5));
    assert_eq!(
        now_or_never(store.peek_n("a3", b"alice", 1)).unwrap().unwrap().remaining(),
        Some(3)
    );
}

#[tokio::test]
async fn charges_without_a_place_are_counted() {
    let store = MemoryStore::new(10, ManualClock::default());
    let strict = Serving::new(OnStoreError::Local).with_on_full(OnFull::Refuse);
    let policy = Policy::new("a", [Limit::per_hour(1_000)]).unwrap();
    store.set_policy_as(policy, strict).await.unwrap();
    for key in 0..30_u8 {
        let _ = now_or_never(store.check_n("a", &[key], 1)).unwrap().unwrap();
    }
    assert_eq!((store.len(), store.len_of("a"), store.overflowed()), (10, 10, 20));
}
