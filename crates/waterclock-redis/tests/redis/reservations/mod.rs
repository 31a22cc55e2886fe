//! Reservations in Redis give the same answers as in memory, exactly once, whichever process crashes.

mod apart;
mod at_once;
mod change;
mod killed;
mod lost_replies;
mod parity;
mod release;
mod silent;

use std::time::Duration;

use waterclock::{
    BadReservation, Charge, Hold, OnExpiry, Reserved, Settled, Settlement, Store, StoreError,
};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::RedisStore;

use crate::scene::{PATIENT, asking, still_bucket, store};

/// Holds units of one key of policy `p` for a while.
/// Longer than a busy machine takes for any test.
const TTL_MS: u64 = 600_000;

async fn hold(store: &RedisStore, id: &str, key: &str, cost: u64) -> Result<Reserved, StoreError> {
    hold_for(store, id, &[Charge::new("p", key.as_bytes(), cost)], TTL_MS).await
}

async fn hold_for(
    store: &RedisStore,
    id: &str,
    charges: &[Charge<'_>],
    ttl_ms: u64,
) -> Result<Reserved, StoreError> {
    let (ttl, on_expiry) = (Some(Duration::from_millis(ttl_ms)), OnExpiry::Keep);
    store.reserve(&Hold { id: Some(id), ttl, charges, on_expiry }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cost_of_nothing_is_an_error() {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).deadline(PATIENT), still_bucket(10)).await;
    assert_eq!(hold(&store, "id", "k", 0).await, Err(BadReservation::NoCost.into()));
    let unknown = StoreError::UnknownReservation("id".to_owned());
    assert_eq!(commit(&store, "id", 1).await, Err(unknown));
    assert!(hold(&store, "id", "k", 1).await.unwrap().id.is_some());
}

async fn commit(store: &RedisStore, id: &str, used: u64) -> Result<Settled, StoreError> {
    store.settle(id, Settlement::Commit(&[used.into()])).await
}
