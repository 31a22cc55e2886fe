//! The floor behind our layer: what limiting adds to an application of axum's, in its own process.

use std::time::Duration;

use axum::Router;
use axum::routing::post;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use waterclock::{Gcra, MemoryStore, Policy, TscClock};
use waterclock_http::{Key, RateLimitLayer, Rule};

use crate::Error;
use crate::keys::{NARROW, Quota, WIDE};

/// Enough for every key there is.
const MAX_KEYS: usize = 1 << 20;

pub async fn serve(listener: TcpListener) -> Result<(), Error> {
    let nothing = || async { http::StatusCode::NO_CONTENT };
    let router = Router::new().route("/", post(nothing)).route("/narrow", post(nothing));
    let limits = RateLimitLayer::builder(MemoryStore::new(MAX_KEYS, TscClock::default()))
        .rule(Rule::new(policy("wide", WIDE)?).path("/"))
        .rule(Rule::new(policy("narrow", NARROW)?).path("/narrow"))
        .key(Key::header("x-user"))
        .build_per_connection()
        .await?;
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    Ok(axum::serve(listener, limits.make_service(router)).await?)
}

fn policy(name: &str, quota: Quota) -> Result<Policy, Error> {
    let limit = Gcra::new(quota.limit, Duration::from_secs(quota.seconds))?;
    Ok(Policy::new(name, [limit])?)
}
