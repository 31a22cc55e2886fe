//! Policies change while something is held.

use tokio::time::sleep;
use waterclock::{FixedWindow, Gcra, Hold, Limit, OnExpiry, Policy, Settlement, Store, StoreError};
use waterclock_conformance::real::RedisServer;

use super::{commit, hold};
use crate::scene::{HOUR, PATIENT, SECOND, asking, millis, remaining, store, units};

fn hourly(kind: &str, limit: u64) -> Policy {
    let limit: Limit = match kind {
        "gcra" => Gcra::new(limit, HOUR).unwrap().into(),
        _ => FixedWindow::aligned(limit, HOUR).unwrap().into(),
    };
    Policy::new("p", [limit.with_name("hourly")]).unwrap()
}

/// 60 are held of 100. Of 1000 there are 940 left, and when 20 were used, 980.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_under_older_numbers_is_settled_under_the_new() {
    for kind in ["gcra", "fixed"] {
        let server = RedisServer::start();
        let store = store(asking(&server.url()).deadline(PATIENT), hourly(kind, 100)).await;
        hold(&store, "held", "key", 60).await.unwrap();
        store.set_policy(hourly(kind, 1_000)).await.unwrap();
        assert_eq!(remaining(&store, "key").await, 940, "{kind}");
        assert_eq!(commit(&store, "held", 20).await.unwrap().held, [60]);
        assert_eq!(remaining(&store, "key").await, 980, "{kind}");
        hold(&store, "more", "key", 60).await.unwrap();
        store.set_policy(hourly(kind, 500)).await.unwrap();
        commit(&store, "more", 70).await.unwrap();
        assert_eq!(remaining(&store, "key").await, 410, "{kind}");
    }
}

/// Any node settles what another one holds, and one that does not know the policy says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_settles() {
    let server = RedisServer::start();
    let builder = || asking(&server.url()).deadline(PATIENT);
    let (one, other) =
        (store(builder(), hourly("gcra", 100)), store(builder(), hourly("gcra", 100)));
    let (one, other) = (one.await, other.await);
    hold(&one, "held", "key", 60).await.unwrap();
    let stranger = builder().connect().await.unwrap();
    let told = stranger.settle("held", Settlement::Cancel).await.unwrap_err();
    assert_eq!(told, StoreError::UnknownPolicy("p".into()));
    assert!(other.settle("held", Settlement::Cancel).await.unwrap().is_cancelled);
    assert_eq!(remaining(&one, "key").await, 100);
}

/// 60 of 100 are held and given back when their time is over, by whichever definition is in use then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_released_under_older_numbers_is_given_back_under_the_new() {
    for kind in ["gcra", "fixed"] {
        let server = RedisServer::start();
        let store = store(asking(&server.url()).deadline(PATIENT), hourly(kind, 100)).await;
        let charges = &[units("key", 60)];
        let (ttl, on_expiry) = (Some(2 * SECOND), OnExpiry::Release);
        let hold = Hold { id: None, ttl, charges, on_expiry };
        let held = store.reserve(&hold).await.unwrap();
        assert_eq!(held.id.map(|id| id.len()), Some(32), "an id of its own");
        store.set_policy(hourly(kind, 1_000)).await.unwrap();
        assert_eq!(remaining(&store, "key").await, 940, "{kind}");
        sleep(2 * SECOND + millis(50)).await;
        assert_eq!(remaining(&store, "key").await, 1_000, "{kind}");
    }
}
