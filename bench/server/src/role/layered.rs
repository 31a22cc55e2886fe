//! The floor behind our layer: what limiting adds to an application of axum's, in its own process.

use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tower::Layer;
use waterclock::{Gcra, MemoryStore, Policy, TscClock};
use waterclock_http::{Key, RateLimit, RateLimitConnections, RateLimitLayer, Rule};

use super::floor;
use crate::Error;
use crate::keys::{NARROW, Quota, WIDE};

/// Enough for every key there is.
const MAX_KEYS: usize = 1 << 20;

type Store = MemoryStore<TscClock>;

pub async fn serve(listener: TcpListener) -> Result<(), Error> {
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    Ok(axum::serve(listener, limits().await?.make_service(floor::app())).await?)
}

/// What serves one connection.
pub async fn service() -> Result<RateLimit<Router, Store>, Error> {
    Ok(limits().await?.layer_for(Ipv4Addr::LOCALHOST.into()).layer(floor::app()))
}

async fn limits() -> Result<RateLimitConnections<Store>, Error> {
    let limits = RateLimitLayer::builder(MemoryStore::new(MAX_KEYS, TscClock::default()))
        .rule(Rule::new(policy("wide", WIDE)?).path("/"))
        .rule(Rule::new(policy("narrow", NARROW)?).path("/narrow"))
        .key(Key::header("x-user"))
        .build_per_connection()
        .await?;
    Ok(limits)
}

fn policy(name: &str, quota: Quota) -> Result<Policy, Error> {
    let limit = Gcra::new(quota.limit, Duration::from_secs(quota.seconds))?;
    Ok(Policy::new(name, [limit])?)
}
