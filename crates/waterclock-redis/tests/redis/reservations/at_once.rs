//! So many at once, across nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use waterclock::{Charge, Concurrency, Limit, Policy, Settlement, Store, StoreError, Unfit, Verb};
use waterclock_conformance::real::RedisServer;

use super::hold_for;
use crate::scene::{HOUR, PATIENT, asking, millis, remaining, store, units};

const PLACES: u64 = 3;
const LEASE: Duration = Duration::from_secs(30);

fn places() -> Policy {
    Policy::new("p", [Concurrency::new(PLACES, LEASE).unwrap()]).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_never_hold_more_than_there_is() {
    let server = RedisServer::start();
    let (inside, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut holders = JoinSet::new();
    for node in 0..3 {
        let node_store = store(asking(&server.url()).deadline(PATIENT), places()).await;
        for holder in 0..4 {
            let (store, inside, most) =
                (node_store.clone(), Arc::clone(&inside), Arc::clone(&most));
            holders.spawn(async move {
                let mut held = 0;
                for number in 0..40 {
                    let id = format!("{node}-{holder}-{number}");
                    if hold_for(&store, &id, &[units("key", 1)], 10_000).await.unwrap().id.is_none()
                    {
                        sleep(millis(1)).await;
                        continue;
                    }
                    held += 1;
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    sleep(millis(fastrand::u64(0..3))).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    let one = [1.into()];
                    let with = [Settlement::Cancel, Settlement::Commit(&one)][number % 2];
                    store.settle(&id, with).await.unwrap();
                }
                held
            });
        }
    }
    let held: u64 = holders.join_all().await.into_iter().sum();
    let most = most.load(Ordering::SeqCst);
    assert!(held > PLACES && most <= PLACES, "{held} held, {most} at once");
    assert_eq!(most, PLACES, "they never met");
    let store = store(asking(&server.url()).deadline(PATIENT), places()).await;
    assert_eq!(remaining(&store, "key").await, PLACES, "nothing leaks");
}

/// A check could not give it back, so it says what to do instead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_of_a_concurrency_limit_is_an_error() {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).deadline(PATIENT), places()).await;
    let told = store.apply(Verb::Check, &[units("key", 1)]).await.unwrap_err();
    assert!(matches!(told, StoreError::Unfit(Unfit::ReservesOnly(_))), "{told}");
    let too_long = hold_for(&store, "long", &[units("key", 1)], 60_000).await.unwrap_err();
    assert!(matches!(too_long, StoreError::BadReservation(_)), "{too_long}");
}

/// A clock set back by an hour does not block callers for an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_steps_back_adds_a_lease_at_most() {
    let server = RedisServer::start_with_clock();
    let lease = millis(300);
    let policy = Policy::new("p", [Concurrency::new(1, lease).unwrap()]).unwrap();
    let store = store(asking(&server.url()).deadline(PATIENT), policy).await;
    let one = [units("key", 1)];
    assert!(hold_for(&store, "first", &one, 300).await.unwrap().id.is_some());
    server.step_clock(HOUR, false);
    let refused = hold_for(&store, "second", &one, 300).await.unwrap();
    let retry = refused.answers[0].decision.retry_after().unwrap();
    assert!(refused.id.is_none() && retry <= lease, "{refused:?}");
    let start = Instant::now();
    while hold_for(&store, "second", &one, 300).await.unwrap().id.is_none() {
        assert!(start.elapsed() < PATIENT, "it freezes");
        sleep(millis(5)).await;
    }
}

/// A place and a rate together: a refusal by one takes nothing of the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_and_a_rate_are_taken_together_or_not_at_all() {
    let server = RedisServer::start();
    let place = Limit::from(Concurrency::new(1, LEASE).unwrap()).with_name("place");
    let rate = Limit::per_hour(3).with_name("rate");
    let policy = Policy::new("p", [place, rate]).unwrap();
    let store = store(asking(&server.url()).deadline(PATIENT), policy).await;
    let one = [Charge::new("p", b"key", 1)];
    let mut passed = 0;
    for number in 0..5 {
        let (id, other) = (format!("{number}"), format!("other {number}").replace(' ', "-"));
        if hold_for(&store, &id, &one, 10_000).await.unwrap().id.is_none() {
            continue;
        }
        passed += 1;
        assert!(hold_for(&store, &other, &one, 10_000).await.unwrap().id.is_none());
        store.settle(&id, Settlement::Commit(&[1.into()])).await.unwrap();
    }
    assert_eq!(passed, 3);
}
