//! The layer: it asks a store about each request before the service sees it.
//!
//! One request: [`RateLimit::call`](service) → [`Gate::decide_now`](gate), or `decide` where a key or the store takes time
//! (`Rule::matches`, `Key::find`, `Rule::resolve`, then one call of the store for all rules) → [`ResponseFuture`](future) → [`ResponseBody`](body),
//! whose end [settles](settle) what was reserved.

#[cfg(feature = "axum")]
mod axum;
mod body;
mod builder;
mod checked;
mod future;
mod gate;
mod matches;
mod service;
mod settle;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tower_layer::Layer;
use waterclock::Store;

#[cfg(feature = "axum")]
pub use self::axum::MakeRateLimit;
pub use body::ResponseBody;
pub use builder::{BuildError, RateLimitLayerBuilder};
pub use checked::{Charged, Checked};
pub use future::ResponseFuture;
use gate::{Gate, PeerSource};
pub(crate) use matches::Match;
pub use service::RateLimit;

/// Limits the requests of a service, by one or several policies of a [`Store`].
///
/// ```
/// use waterclock::{Limit, MemoryStore, Policy};
/// use waterclock_http::{Key, RateLimitLayer};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let per_tenant = Policy::new("api", [Limit::per_second(100)])?;
/// let layer = RateLimitLayer::builder(MemoryStore::default())
///     .policy(per_tenant)
///     .key(Key::header("x-tenant"))
///     .build()
///     .await?;
/// # Ok(()) }
/// ```
///
/// Clones share the store and the rules, so a service per connection counts like one service for all.
pub struct RateLimitLayer<S> {
    gate: Arc<Gate<S>>,
    peer: PeerSource,
}

impl<S: Store + 'static> RateLimitLayer<S> {
    /// Starts a layer that keeps its state in this store.
    #[must_use]
    pub fn builder(store: S) -> RateLimitLayerBuilder<S> {
        RateLimitLayerBuilder::new(store)
    }

    /// How many requests could not be settled or reported so far because the store failed. What was
    /// reserved for them stays charged.
    #[must_use]
    pub fn unsettled(&self) -> u64 {
        self.gate.unsettled.load(Ordering::Relaxed)
    }
}

impl<S> Clone for RateLimitLayer<S> {
    fn clone(&self) -> Self {
        Self { gate: Arc::clone(&self.gate), peer: self.peer.clone() }
    }
}

impl<S, Inner> Layer<Inner> for RateLimitLayer<S> {
    type Service = RateLimit<Inner, S>;

    fn layer(&self, inner: Inner) -> Self::Service {
        RateLimit { inner, gate: Arc::clone(&self.gate), peer: self.peer.clone() }
    }
}

impl<S> fmt::Debug for RateLimitLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("rules", &self.gate.rules).finish_non_exhaustive()
    }
}

/// Makes a layer for each connection of a server. All of them count together.
///
/// A [`ClientIp`](crate::ClientIp) key needs the address of the connection's peer, which a request does not
/// contain. With this type the compiler makes sure that the address is known.
pub struct RateLimitConnections<S> {
    gate: Arc<Gate<S>>,
}

impl<S: Store + 'static> RateLimitConnections<S> {
    /// The layer for a connection from this address.
    #[must_use]
    pub fn layer_for(&self, peer: IpAddr) -> RateLimitLayer<S> {
        RateLimitLayer { gate: Arc::clone(&self.gate), peer: PeerSource::Connection(peer) }
    }

    /// Wraps an application for `axum::serve`.
    #[cfg(feature = "axum")]
    pub fn make_service<App>(self, app: App) -> MakeRateLimit<App, S> {
        MakeRateLimit { connections: self, app }
    }
}

impl<S> Clone for RateLimitConnections<S> {
    fn clone(&self) -> Self {
        Self { gate: Arc::clone(&self.gate) }
    }
}

impl<S> fmt::Debug for RateLimitConnections<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = &self.gate.rules;
        f.debug_struct("RateLimitConnections").field("rules", rules).finish_non_exhaustive()
    }
}
