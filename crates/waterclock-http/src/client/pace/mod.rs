//! Load levelling: requests wait for their turn instead of being refused.

mod error;
mod future;
mod line;
mod pacer;
mod service;
mod shared;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use tower_layer::Layer;
use waterclock::Clock;

use super::authority::authority;
use super::patience::Patience;
pub use error::PaceError;
pub use future::PaceFuture;
pub use pacer::Pacer;
pub use service::Pace;

/// Holds each request of a client back until a limiter admits it.
///
/// ```
/// use std::time::Duration;
/// use waterclock::{KeyedLimiter, Limit};
/// use waterclock_http::PaceLayer;
///
/// // Every server gets fifty requests per second, and nobody waits longer than two.
/// let limiter = KeyedLimiter::new(Limit::per_second(50).with_capacity(1));
/// let layer = PaceLayer::new(limiter).within(Duration::from_secs(2));
/// # let _: PaceLayer<http::Request<()>> = layer;
/// ```
///
/// Those who wait for one key pass in the order in which their calls were first polled. A call that is dropped
/// leaves the line, and has charged nothing if it was not admitted yet; with a [shared](Pacer::shared) pacer it
/// may have been charged from the moment it asked the store. Clones share everything.
pub struct PaceLayer<R> {
    pacing: Pacing<R>,
}

/// What all services of a layer go by.
struct Pacing<R> {
    pacer: Pacer,
    key: Arc<dyn Fn(&R) -> String + Send + Sync>,
    cost: Arc<dyn Fn(&R) -> u64 + Send + Sync>,
    patience: Patience,
    backlog: Option<usize>,
}

impl<B: 'static> PaceLayer<Request<B>> {
    /// One budget for each server: the key is the request's authority (host and port).
    #[must_use]
    pub fn new(pacer: impl Into<Pacer>) -> Self {
        Self::by(pacer, authority)
    }
}

impl<R> PaceLayer<R> {
    /// One budget for each key, for requests of any type.
    ///
    /// ```
    /// use waterclock::{KeyedLimiter, Limit};
    /// use waterclock_http::PaceLayer;
    ///
    /// let host = |request: &reqwest::Request| request.url().authority().to_owned();
    /// let layer = PaceLayer::by(KeyedLimiter::new(Limit::per_second(50)), host);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn by(pacer: impl Into<Pacer>, key: impl Fn(&R) -> String + Send + Sync + 'static) -> Self {
        Self {
            pacing: Pacing {
                pacer: pacer.into(),
                key: Arc::new(key),
                cost: Arc::new(|_| 1),
                patience: Patience::default(),
                backlog: None,
            },
        }
    }

    /// What shares a budget, if not what shares an authority.
    #[must_use]
    pub fn key(mut self, key: impl Fn(&R) -> String + Send + Sync + 'static) -> Self {
        self.pacing.key = Arc::new(key);
        self
    }

    /// What a request costs: 1 unless this says otherwise. A request that costs 0 does not wait.
    #[must_use]
    pub fn cost_of(mut self, cost: impl Fn(&R) -> u64 + Send + Sync + 'static) -> Self {
        self.pacing.cost = Arc::new(cost);
        self
    }

    /// Fail a request that would wait longer than this; at once, if that can be told. Without it, a request
    /// waits for as long as it takes.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.pacing.patience.within = Some(deadline);
        self
    }

    /// Add up to this much, at random, to each advised wait, so that many processes do not move as one.
    #[must_use]
    pub fn jitter(mut self, most: Duration) -> Self {
        self.pacing.patience.jitter = most;
        self
    }

    /// Fail a request at once when more than so many wait for its key already. 65 536 by default; 0 lets
    /// nobody wait behind another. With a [shared](Pacer::shared) pacer, who waits for the store's answer waits.
    #[must_use]
    pub fn backlog(mut self, most: usize) -> Self {
        self.pacing.backlog = Some(most);
        self
    }

    /// Another clock for the deadline of a [shared](Pacer::shared) pacer. A limiter in this process goes by
    /// its own.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.pacing.patience.clock = Arc::new(clock);
        self
    }
}

impl<R> Clone for Pacing<R> {
    fn clone(&self) -> Self {
        Self {
            pacer: self.pacer.clone(),
            key: Arc::clone(&self.key),
            cost: Arc::clone(&self.cost),
            patience: self.patience.clone(),
            backlog: self.backlog,
        }
    }
}

impl<R> Clone for PaceLayer<R> {
    fn clone(&self) -> Self {
        Self { pacing: self.pacing.clone() }
    }
}

impl<R, Inner> Layer<Inner> for PaceLayer<R> {
    type Service = Pace<Inner, R>;

    fn layer(&self, inner: Inner) -> Self::Service {
        Pace::new(inner, Arc::new(self.pacing.clone()))
    }
}

impl<R> fmt::Debug for PaceLayer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaceLayer")
            .field("patience", &self.pacing.patience)
            .field("backlog", &self.pacing.backlog)
            .finish_non_exhaustive()
    }
}
