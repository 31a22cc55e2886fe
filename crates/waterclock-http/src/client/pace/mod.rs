//! Load levelling: requests wait for their turn instead of being refused.

mod pacer;
mod service;
mod shared;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use tower_layer::Layer;
use waterclock::{Clock, StoreError, WaitError};

use super::authority;
use super::wait::WaitBounds;
use pacer::PaceFailure;
pub use pacer::Pacer;
pub use service::{Pace, PaceFuture};

/// Holds each request of a client back until a limiter admits it.
///
/// ```
/// use std::time::Duration;
/// use waterclock::{KeyedLimiter, Limit};
/// use waterclock_http::PaceLayer;
///
/// // Fifty requests per second to each server; no request waits longer than two seconds.
/// let limiter = KeyedLimiter::new(Limit::per_second(50).with_capacity(1));
/// let layer = PaceLayer::new(limiter).within(Duration::from_secs(2));
/// # let _: PaceLayer<http::Request<()>> = layer;
/// ```
///
/// Requests that wait for one key are sent in the order in which their futures were first polled. A future
/// that is dropped while it waits leaves the queue and has charged nothing; with a [shared](Pacer::shared) pacer
/// it may have been charged from the moment it asked the store. Clones share the limiter and its queues.
pub struct PaceLayer<R> {
    settings: Settings<R>,
}

/// What all services of a layer share.
struct Settings<R> {
    pacer: Pacer,
    key: Arc<dyn Fn(&R) -> String + Send + Sync>,
    cost: Arc<dyn Fn(&R) -> u64 + Send + Sync>,
    bounds: WaitBounds,
    backlog: Option<usize>,
}

impl<B: 'static> PaceLayer<Request<B>> {
    /// One budget for each server: the key is the request's authority (host and port).
    #[must_use]
    pub fn new(pacer: impl Into<Pacer>) -> Self {
        Self::with_key(pacer, authority)
    }
}

impl<R> PaceLayer<R> {
    /// One budget for each key, for requests of any type: the function finds the key of a request.
    ///
    /// ```
    /// use waterclock::{KeyedLimiter, Limit};
    /// use waterclock_http::PaceLayer;
    ///
    /// let host = |request: &reqwest::Request| request.url().authority().to_owned();
    /// let layer = PaceLayer::with_key(KeyedLimiter::new(Limit::per_second(50)), host);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn with_key(
        pacer: impl Into<Pacer>,
        key: impl Fn(&R) -> String + Send + Sync + 'static,
    ) -> Self {
        Self {
            settings: Settings {
                pacer: pacer.into(),
                key: Arc::new(key),
                cost: Arc::new(|_| 1),
                bounds: WaitBounds::default(),
                backlog: None,
            },
        }
    }

    /// Sets what shares a budget, instead of the authority.
    #[must_use]
    pub fn key(mut self, key: impl Fn(&R) -> String + Send + Sync + 'static) -> Self {
        self.settings.key = Arc::new(key);
        self
    }

    /// Computes the cost of a request, which is 1 by default. A request that costs 0 does not wait.
    #[must_use]
    pub fn cost_of(mut self, cost: impl Fn(&R) -> u64 + Send + Sync + 'static) -> Self {
        self.settings.cost = Arc::new(cost);
        self
    }

    /// Fails a request that would wait longer than this; at once, if that is known. Without this, a request
    /// waits for as long as it takes.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.settings.bounds.within = Some(deadline);
        self
    }

    /// Adds up to this much, at random, to each wait, so that many processes do not act at once.
    #[must_use]
    pub fn jitter(mut self, most: Duration) -> Self {
        self.settings.bounds.jitter = most;
        self
    }

    /// Fails a request at once if more than this many requests wait for its key already: 65,536 by default.
    /// With 0, none waits behind another. With a [shared](Pacer::shared) pacer, the request that the store is
    /// being asked about counts as waiting.
    #[must_use]
    pub fn backlog(mut self, most: usize) -> Self {
        self.settings.backlog = Some(most);
        self
    }

    /// Sets another clock for the deadline of a [shared](Pacer::shared) pacer. A limiter in this process uses
    /// its own.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.settings.bounds.clock = Arc::new(clock);
        self
    }
}

impl<R> Clone for Settings<R> {
    fn clone(&self) -> Self {
        Self {
            pacer: self.pacer.clone(),
            key: Arc::clone(&self.key),
            cost: Arc::clone(&self.cost),
            bounds: self.bounds.clone(),
            backlog: self.backlog,
        }
    }
}

impl<R> Clone for PaceLayer<R> {
    fn clone(&self) -> Self {
        Self { settings: self.settings.clone() }
    }
}

impl<R, Inner> Layer<Inner> for PaceLayer<R> {
    type Service = Pace<Inner, R>;

    fn layer(&self, inner: Inner) -> Self::Service {
        Pace { inner, settings: Arc::new(self.settings.clone()) }
    }
}

impl<R> fmt::Debug for PaceLayer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaceLayer")
            .field("bounds", &self.settings.bounds)
            .field("backlog", &self.settings.backlog)
            .finish_non_exhaustive()
    }
}

/// Why a request of a [`PaceLayer`] has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PaceError<E> {
    /// Its turn did not come in time. It was not sent, and nothing was charged.
    Wait(WaitError),
    /// The shared store failed. The request was not sent.
    Store(StoreError),
    /// The client failed.
    Inner(E),
}

impl<E> From<PaceFailure> for PaceError<E> {
    fn from(failure: PaceFailure) -> Self {
        match failure {
            PaceFailure::Wait(error) => Self::Wait(error),
            PaceFailure::Store(error) => Self::Store(error),
        }
    }
}

impl<E: fmt::Display> fmt::Display for PaceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait(error) => write!(f, "the request was not sent: {error}"),
            Self::Store(error) => write!(f, "the request was not sent: {error}"),
            Self::Inner(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for PaceError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(match self {
            Self::Wait(error) => error,
            Self::Store(error) => error,
            Self::Inner(error) => error,
        })
    }
}
