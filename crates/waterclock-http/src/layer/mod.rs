//! The layer: it asks a store about each request before the service sees it.

mod after;
mod body;
mod builder;
mod checked;
mod connections;
mod decide;
mod error;
mod future;
mod hold;
mod line;
mod service;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tower_layer::Layer;
use waterclock::Store;

pub use body::ResponseBody;
pub use builder::RateLimitBuilder;
pub use checked::{Charged, Checked};
#[cfg(feature = "axum")]
pub use connections::MakeRateLimit;
pub use connections::RateLimitConnections;
use decide::{Gate, PeerOf};
pub use error::BuildError;
pub use future::ResponseFuture;
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
///     .rule(per_tenant)
///     .key(Key::header("x-tenant"))
///     .build()
///     .await?;
/// # Ok(()) }
/// ```
///
/// Clones share everything: a service for each connection is as good as one for all.
pub struct RateLimitLayer<S> {
    gate: Arc<Gate<S>>,
    peer: PeerOf,
}

impl<S: Store + 'static> RateLimitLayer<S> {
    /// A layer that keeps its counts in this store.
    #[must_use]
    pub fn builder(store: S) -> RateLimitBuilder<S> {
        RateLimitBuilder::new(store)
    }

    /// How many exchanges could not be settled or reported so far, because the store had no answer: what was
    /// held for them stays charged.
    #[must_use]
    pub fn unsettled(&self) -> u64 {
        self.gate.unsettled.load(Ordering::Relaxed)
    }

    fn at(gate: Arc<Gate<S>>, peer: IpAddr) -> Self {
        Self { gate, peer: PeerOf::Connection(peer) }
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
        RateLimit::new(inner, Arc::clone(&self.gate), self.peer.clone())
    }
}

impl<S> fmt::Debug for RateLimitLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("rules", &self.gate.rules).finish_non_exhaustive()
    }
}
