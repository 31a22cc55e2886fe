//! Honours what servers say about when to come back.

mod advice;
mod date;
mod error;
mod future;
mod manner;
mod not_before;
mod rate_limit;
mod seconds;
mod service;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode};
use tower_layer::Layer;
use waterclock::Clock;

use super::authority::authority;
pub use advice::advised_wait;
pub use error::HonourError;
pub use future::HonourFuture;
use manner::Manner;
pub use service::Honour;

/// Keeps away from a server for as long as the server asks for: [`advised_wait`] says how it asks.
///
/// ```
/// use std::time::Duration;
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use waterclock_http::HonourLayer;
///
/// type Layer = HonourLayer<Request<Full<Bytes>>, Response<Full<Bytes>>>;
/// let layer: Layer = HonourLayer::new()
///     .within(Duration::from_secs(10))
///     .jitter(Duration::from_millis(250))
///     .retries(2);
/// # let _ = layer;
/// ```
///
/// Later requests to that server wait until then; those to others do not. Clones share everything. For
/// 10 000 servers at once it is remembered when to come back; beyond that, those whose wait ends first are
/// forgotten.
pub struct HonourLayer<R, P> {
    manner: Manner<R, P>,
}

impl<B: 'static, D: 'static> HonourLayer<Request<B>, Response<D>> {
    /// A server is a request's authority (host and port).
    #[must_use]
    pub fn new() -> Self {
        Self::by(authority, |response: &Response<D>| (response.status(), response.headers()))
    }
}

impl<B: 'static, D: 'static> Default for HonourLayer<Request<B>, Response<D>> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Clone, P> HonourLayer<Request<B>, P> {
    /// How often a refused request is sent again, when the wait is over: 0 unless this says otherwise.
    ///
    /// Refused is a request with status 429 and an advised wait, or with status 503 and `Retry-After`. If the
    /// wait is longer than [`within`](Self::within), or becomes so because the server tells somebody else to
    /// wait longer, the refusal is the response. For that it is kept during the wait, its body unread, where
    /// there is a deadline.
    #[must_use]
    pub fn retries(self, most: usize) -> Self {
        self.retries_by(most, |request| Some(request.clone()))
    }
}

impl<R, P> HonourLayer<R, P> {
    /// For requests and responses of any type: whom a request is for, and where a response says its status
    /// and its fields.
    ///
    /// ```
    /// use waterclock_http::HonourLayer;
    ///
    /// let layer = HonourLayer::by(
    ///     |request: &reqwest::Request| request.url().authority().to_owned(),
    ///     |response: &reqwest::Response| (response.status(), response.headers()),
    /// )
    /// .retries_by(2, reqwest::Request::try_clone);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn by(
        authority: impl Fn(&R) -> String + Send + Sync + 'static,
        head: impl Fn(&P) -> (StatusCode, &HeaderMap) + Send + Sync + 'static,
    ) -> Self {
        Self { manner: Manner::new(Arc::new(authority), Arc::new(head)) }
    }

    /// The same as [`retries`](HonourLayer::retries), with a copy made by this function. A request of which
    /// there is no copy is sent once.
    #[must_use]
    pub fn retries_by(
        mut self,
        most: usize,
        copy: impl Fn(&R) -> Option<R> + Send + Sync + 'static,
    ) -> Self {
        (self.manner.retries, self.manner.copy) = (most, Arc::new(copy));
        self
    }

    /// The longest that a request may wait in all, its retries included. One that would wait longer before it
    /// is sent at all fails at once. Without it, it waits for as long as it takes.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.manner.patience.within = Some(deadline);
        self
    }

    /// Add up to this much, at random, to each wait, so that those who waited do not come back as one.
    #[must_use]
    pub fn jitter(mut self, most: Duration) -> Self {
        self.manner.patience.jitter = most;
        self
    }

    /// The longest wait that a server is believed; what it asks for beyond that is cut to this. An hour
    /// unless this says otherwise.
    #[must_use]
    pub fn at_most(mut self, wait: Duration) -> Self {
        self.manner.at_most = wait;
        self
    }

    /// Another source of time. It has to tell the time of day, because servers do.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.manner.patience.clock = Arc::new(clock);
        self
    }
}

impl<R, P> Clone for HonourLayer<R, P> {
    fn clone(&self) -> Self {
        Self { manner: self.manner.clone() }
    }
}

impl<R, P, Inner> Layer<Inner> for HonourLayer<R, P> {
    type Service = Honour<Inner, R, P>;

    fn layer(&self, inner: Inner) -> Self::Service {
        Honour::new(inner, Arc::new(self.manner.clone()))
    }
}

impl<R, P> fmt::Debug for HonourLayer<R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HonourLayer")
            .field("patience", &self.manner.patience)
            .field("at_most", &self.manner.at_most)
            .field("retries", &self.manner.retries)
            .finish_non_exhaustive()
    }
}
