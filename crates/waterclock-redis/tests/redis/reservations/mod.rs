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

use waterclock::{Charge, Hold, OnExpiry, Reserved, Settled, Settlement, Store, StoreError};
use waterclock_redis::RedisStore;

/// Holds units of one key of policy `p` for a while.
async fn hold(store: &RedisStore, id: &str, key: &str, cost: u64) -> Result<Reserved, StoreError> {
    hold_for(store, id, &[Charge { policy: "p", key: key.as_bytes(), cost: cost.into() }], 60_000)
        .await
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

async fn commit(store: &RedisStore, id: &str, used: u64) -> Result<Settled, StoreError> {
    store.settle(id, Settlement::Commit(&[used.into()])).await
}
