//! Reservations in a cluster: the record of one and those of its keys lie in different slots.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use waterclock::{Charge, Cost, Failure, FixedWindow, Policy, Settlement, Store, StoreError};
use waterclock_conformance::real::Cluster;

use super::{commit, hold, hold_for};
use crate::scene::{HOUR, PATIENT, asking, millis, remaining, store};

const LIMIT: u64 = 100;

fn window() -> Policy {
    Policy::new("p", [FixedWindow::new(LIMIT, HOUR).unwrap()]).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_and_settled_wherever_they_lie() {
    let cluster = Cluster::start(3, 0);
    let store = store(asking(&cluster.url()).deadline(PATIENT), window()).await;
    for number in 0..40 {
        let (id, key) = (format!("hold{number}"), format!("key{number}"));
        assert!(hold(&store, &id, &key, 60).await.unwrap().id.is_some());
        let again = hold(&store, &id, &key, 60).await.unwrap();
        assert_eq!(again.answers[0].decision.granted(), 60);
        assert!(hold(&store, &format!("more{number}"), &key, 60).await.unwrap().id.is_none());
        assert_eq!(remaining(&store, &key).await, 40);
        let settled = commit(&store, &id, 10).await.unwrap();
        assert_eq!(commit(&store, &id, 99).await.unwrap(), settled);
        assert_eq!(remaining(&store, &key).await, 90);
        // A refusal leaves its id free.
        assert!(hold(&store, &format!("more{number}"), &key, 60).await.unwrap().id.is_some());
    }
    let other = hold(&store, "hold1", "key2", 60).await.unwrap_err();
    assert!(matches!(other, StoreError::BadReservation(_)), "{other}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_several_slots_are_held_together_or_not_at_all() {
    let cluster = Cluster::start(3, 0);
    let store = store(asking(&cluster.url()).deadline(PATIENT), window()).await;
    let charge = |key: &'static str, cost: u64| Charge {
        policy: "p",
        key: key.as_bytes(),
        cost: cost.into(),
    };
    let all = [charge("a", 60), charge("b", 30), charge("c", 10)];
    assert!(hold_for(&store, "all", &all, 60_000).await.unwrap().id.is_some());
    let refused = hold_for(&store, "again", &all, 60_000).await.unwrap();
    assert!(refused.id.is_none());
    let left = async |key| remaining(&store, key).await;
    assert_eq!((left("a").await, left("b").await, left("c").await), (40, 70, 90));
    store.settle("all", Settlement::Commit(&[0, 35, 10].map(Cost::from))).await.unwrap();
    assert_eq!((left("a").await, left("b").await, left("c").await), (100, 65, 90));
    store.settle("all", Settlement::Cancel).await.unwrap();
    assert_eq!((left("a").await, left("b").await, left("c").await), (100, 65, 90));
}

/// Callers stop in the middle, as if they crashed: each charged unit belongs to a reservation that can be settled, or to
/// one that was begun and blocks its id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_stops_in_the_middle_is_charged_at_most_once() {
    const CALLERS: u64 = 200;
    const ESTIMATE: u64 = 10;
    let cluster = Cluster::start(3, 0);
    let large = Policy::new("p", [FixedWindow::new(1_000_000, HOUR).unwrap()]).unwrap();
    let store = store(asking(&cluster.url()).deadline(PATIENT), large).await;
    hold(&store, "before", "other", 1).await.unwrap();
    let mut left = 0;
    for number in 0..CALLERS {
        let (id, patience) =
            (format!("hold{number}"), Duration::from_micros(fastrand::u64(..2_000)));
        left += u64::from(timeout(patience, hold(&store, &id, "key", ESTIMATE)).await.is_err());
    }
    sleep(millis(200)).await;
    let (mut certain, mut unfinished, mut never) = (0, 0, 0);
    for number in 0..CALLERS {
        let id = format!("hold{number}");
        match commit(&store, &id, 3).await {
            Ok(settled) => certain += settled.used[0].most(),
            Err(StoreError::UnknownReservation(_)) => never += 1,
            Err(error) => {
                assert_eq!(error.failure(), Some(Failure::Overloaded), "{error}");
                assert_eq!(hold(&store, &id, "key", ESTIMATE).await.unwrap_err(), error);
                unfinished += 1;
            }
        }
    }
    let used = 1_000_000 - remaining(&store, "key").await;
    let possible = certain..=certain + ESTIMATE * unfinished;
    println!("{left} left, {unfinished} in the middle of it, {never} before it was begun");
    assert!(left > 0, "no caller left");
    assert!(possible.contains(&used), "{used}, not {possible:?}");
}
