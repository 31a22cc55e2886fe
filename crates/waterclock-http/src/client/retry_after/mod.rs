//! Respects what servers answer about when to come back.

mod advice;
mod not_before;
mod service;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode};
use tower_layer::Layer;
use waterclock::{Clock, Timestamp};

use super::authority;
use super::wait::WaitBounds;
pub use advice::advised_wait;
use not_before::NotBefore;
pub use service::{RetryAfter, RetryAfterFuture};

/// The longest wait that is respected by default.
const MAX_WAIT: Duration = Duration::from_secs(3_600);
/// For how many servers a wait is remembered.
const MAX_AUTHORITIES: usize = 10_000;

/// Sends nothing to a server for as long as the server asks for. [`advised_wait`] lists the fields that are
/// understood.
///
/// ```
/// use std::time::Duration;
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use waterclock_http::RetryAfterLayer;
///
/// type Layer = RetryAfterLayer<Request<Full<Bytes>>, Response<Full<Bytes>>>;
/// let layer: Layer = RetryAfterLayer::new()
///     .within(Duration::from_secs(10))
///     .jitter(Duration::from_millis(250))
///     .retries(2);
/// # let _ = layer;
/// ```
///
/// Later requests to that server wait until then; requests to other servers do not. Clones share what they
/// know. Waits of up to 10,000 servers are remembered; beyond that, the waits that end first are evicted.
pub struct RetryAfterLayer<R, P> {
    settings: Settings<R, P>,
}

type AuthorityOf<R> = Arc<dyn Fn(&R) -> String + Send + Sync>;
type HeadOf<P> = Arc<dyn for<'p> Fn(&'p P) -> (StatusCode, &'p HeaderMap) + Send + Sync>;
type CloneOf<R> = Arc<dyn Fn(&R) -> Option<R> + Send + Sync>;

/// What all services of a layer share.
struct Settings<R, P> {
    authority: AuthorityOf<R>,
    head: HeadOf<P>,
    clone: CloneOf<R>,
    retries: usize,
    max_wait: Duration,
    bounds: WaitBounds,
    not_before: Arc<NotBefore>,
}

impl<B: 'static, D: 'static> RetryAfterLayer<Request<B>, Response<D>> {
    /// A server is identified by a request's authority (host and port).
    #[must_use]
    pub fn new() -> Self {
        Self::with_accessors(authority, |response: &Response<D>| {
            (response.status(), response.headers())
        })
    }
}

impl<B: 'static, D: 'static> Default for RetryAfterLayer<Request<B>, Response<D>> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Clone, P> RetryAfterLayer<Request<B>, P> {
    /// Sets how often a refused request is sent again after the wait: 0 by default.
    ///
    /// Refused are responses with status 429 and an advised wait, or with status 503 and `Retry-After`. If
    /// the wait is longer than [`within`](Self::within), or becomes so because the server tells another
    /// request to wait longer, the refusal is the response. For that, with a deadline, it is kept during the
    /// wait with its body unread.
    #[must_use]
    pub fn retries(self, most: usize) -> Self {
        self.retries_with(most, |request| Some(request.clone()))
    }
}

impl<R, P> RetryAfterLayer<R, P> {
    /// For requests and responses of any type: functions that find the server of a request, and the status
    /// and header fields of a response.
    ///
    /// ```
    /// use waterclock_http::RetryAfterLayer;
    ///
    /// let layer = RetryAfterLayer::with_accessors(
    ///     |request: &reqwest::Request| request.url().authority().to_owned(),
    ///     |response: &reqwest::Response| (response.status(), response.headers()),
    /// )
    /// .retries_with(2, reqwest::Request::try_clone);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn with_accessors(
        authority: impl Fn(&R) -> String + Send + Sync + 'static,
        head: impl Fn(&P) -> (StatusCode, &HeaderMap) + Send + Sync + 'static,
    ) -> Self {
        Self {
            settings: Settings {
                authority: Arc::new(authority),
                head: Arc::new(head),
                clone: Arc::new(|_| None),
                retries: 0,
                max_wait: MAX_WAIT,
                bounds: WaitBounds::default(),
                not_before: Arc::new(NotBefore::new(MAX_AUTHORITIES)),
            },
        }
    }

    /// Like [`retries`](RetryAfterLayer::retries), with a function that clones requests. A request that it
    /// cannot clone is sent once.
    #[must_use]
    pub fn retries_with(
        mut self,
        most: usize,
        clone: impl Fn(&R) -> Option<R> + Send + Sync + 'static,
    ) -> Self {
        (self.settings.retries, self.settings.clone) = (most, Arc::new(clone));
        self
    }

    /// Sets how long a request may wait in all, including its retries. A request that would wait longer
    /// before it is first sent fails at once. Without this, it waits for as long as it takes.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.settings.bounds.within = Some(deadline);
        self
    }

    /// Adds up to this much, at random, to each wait, so that waiting requests do not all return at once.
    #[must_use]
    pub fn jitter(mut self, most: Duration) -> Self {
        self.settings.bounds.jitter = most;
        self
    }

    /// Sets the longest wait that is respected; longer ones are cut to it. One hour by default.
    #[must_use]
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.settings.max_wait = wait;
        self
    }

    /// Sets another clock. It must give the time of day, because servers do.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.settings.bounds.clock = Arc::new(clock);
        self
    }
}

impl<R, P> Settings<R, P> {
    /// Remembers what a response advises. If its request may be sent again, returns when: not before the
    /// server wants any request, which another response may have postponed.
    fn learn(&self, authority: &str, response: &P) -> Option<Timestamp> {
        let (status, headers) = (self.head)(response);
        let now = self.bounds.now();
        let wait = advised_wait(status, headers, now)?.min(self.max_wait);
        let until = self.not_before.extend(authority, now.after(wait));
        advice::invites_retry(status, headers).then_some(until)
    }

    /// A clone to send again, if retries are left and the request can be cloned.
    fn clone_for_retry(&self, retries_left: usize, request: &R) -> Option<R> {
        if retries_left == 0 { None } else { (self.clone)(request) }
    }
}

impl<R, P> Clone for Settings<R, P> {
    fn clone(&self) -> Self {
        Self {
            authority: Arc::clone(&self.authority),
            head: Arc::clone(&self.head),
            clone: Arc::clone(&self.clone),
            retries: self.retries,
            max_wait: self.max_wait,
            bounds: self.bounds.clone(),
            not_before: Arc::clone(&self.not_before),
        }
    }
}

impl<R, P> Clone for RetryAfterLayer<R, P> {
    fn clone(&self) -> Self {
        Self { settings: self.settings.clone() }
    }
}

impl<R, P, Inner> Layer<Inner> for RetryAfterLayer<R, P> {
    type Service = RetryAfter<Inner, R, P>;

    fn layer(&self, inner: Inner) -> Self::Service {
        RetryAfter { inner, settings: Arc::new(self.settings.clone()) }
    }
}

impl<R, P> fmt::Debug for RetryAfterLayer<R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryAfterLayer")
            .field("bounds", &self.settings.bounds)
            .field("max_wait", &self.settings.max_wait)
            .field("retries", &self.settings.retries)
            .finish_non_exhaustive()
    }
}

/// Why a request of a [`RetryAfterLayer`] has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryAfterError<E> {
    /// The request was not sent: the server asked for a wait, and this rest of it is beyond the deadline.
    /// (A request that was sent and refused has the refusal as its response.)
    TooEarly(Duration),
    /// The client failed.
    Inner(E),
}

impl<E: fmt::Display> fmt::Display for RetryAfterError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooEarly(wait) => write!(
                f,
                "the request was not sent: the server asked to wait another {wait:?}, which is beyond the \
                 deadline"
            ),
            Self::Inner(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for RetryAfterError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::TooEarly(_) => None,
            Self::Inner(error) => Some(error),
        }
    }
}
