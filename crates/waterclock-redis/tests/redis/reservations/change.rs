//! Policies change while something is held.

use waterclock::{FixedWindow, Gcra, Limit, OnExpiry, Policy, Settlement, Store, StoreError};
use waterclock_conformance::real::RedisServer;

use super::{commit, hold};
use crate::scene::{HOUR, PATIENT, asking, remaining, store, units};

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

/// No process would be there to give it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releasing_at_expiry_is_refused_with_the_reason() {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).deadline(PATIENT), hourly("gcra", 100)).await;
    let charges = &[units("key", 1)];
    let hold = waterclock::Hold { id: None, ttl: None, charges, on_expiry: OnExpiry::Release };
    assert!(matches!(store.reserve(&hold).await, Err(StoreError::BadReservation(_))));
    let kept = waterclock::Hold { on_expiry: OnExpiry::Keep, ..hold };
    let (first, second) =
        (store.reserve(&kept).await.unwrap(), store.reserve(&kept).await.unwrap());
    assert_ne!(first.id, second.id, "ids of their own");
    assert_eq!(first.id.map(|id| id.len()), Some(32));
}
