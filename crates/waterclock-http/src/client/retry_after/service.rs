//! The service that waits before it sends, and its future.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower_service::Service;
use waterclock::Timestamp;

use super::not_before::NotBefore;
use super::{RetryAfterError, Settings};
use crate::client::POLLED_AGAIN;
use crate::client::wait::WaitBounds;

/// A client that waits for as long as servers ask for, by a [`RetryAfterLayer`](crate::RetryAfterLayer).
pub struct RetryAfter<Inner, R, P> {
    pub(super) inner: Inner,
    pub(super) settings: Arc<Settings<R, P>>,
}

impl<Inner: Clone, R, P> Clone for RetryAfter<Inner, R, P> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), settings: Arc::clone(&self.settings) }
    }
}

impl<Inner, R> Service<R> for RetryAfter<Inner, R, Inner::Response>
where
    Inner: Service<R> + Clone,
{
    type Response = Inner::Response;
    type Error = RetryAfterError<Inner::Error>;
    type Future = RetryAfterFuture<Inner, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(RetryAfterError::Inner)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let settings = Arc::clone(&self.settings);
        let authority = (settings.authority)(&request);
        let (deadline, retries_left) = (settings.bounds.deadline(), settings.retries);
        let (pending, state) =
            if settings.not_before.wait(&authority, settings.bounds.now()).is_some() {
                let waiting = wait(&settings, &authority, Timestamp::ZERO, deadline);
                // A ready service may hold something that others need, so it is released during the wait.
                self.inner = self.inner.clone();
                let pending = Some((self.inner.clone(), request));
                (pending, State::Waiting { waiting, refusal: None })
            } else {
                let copy = settings.clone_for_retry(retries_left, &request);
                let pending = copy.map(|copy| (self.inner.clone(), copy));
                (pending, State::Sending { sending: self.inner.call(request) })
            };
        RetryAfterFuture { settings, authority, deadline, retries_left, pending, state }
    }
}

impl<Inner: fmt::Debug, R, P> fmt::Debug for RetryAfter<Inner, R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryAfter").field("inner", &self.inner).finish_non_exhaustive()
    }
}

type Waiting = Pin<Box<dyn Future<Output = Result<(), Duration>> + Send>>;

pin_project! {
    /// The response of a [`RetryAfter`](crate::RetryAfter): it waits if the server asked for it, then for the
    /// client's response, and repeats both for retries.
    pub struct RetryAfterFuture<Inner, R>
    where
        Inner: Service<R>,
    {
        settings: Arc<Settings<R, Inner::Response>>,
        authority: String,
        deadline: Option<Timestamp>,
        retries_left: usize,
        // The request to send after the wait, and the client to send it with; while sending, a clone for a retry.
        pending: Option<(Inner, R)>,
        #[pin]
        state: State<Inner::Future, Inner::Response>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<Sending, P> {
        Waiting {
            waiting: Waiting,
            // The refusal to return if the wait grows beyond the deadline.
            refusal: Option<P>,
        },
        Readying,
        Sending {
            #[pin]
            sending: Sending,
        },
    }
}

impl<Inner: Service<R> + Clone, R> Future for RetryAfterFuture<Inner, R> {
    type Output = Result<Inner::Response, RetryAfterError<Inner::Error>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Waiting { waiting, refusal } => {
                    match (ready!(waiting.as_mut().poll(context)), refusal.take()) {
                        (Ok(()), _) => State::Readying,
                        (Err(_), Some(refusal)) => return Poll::Ready(Ok(refusal)),
                        (Err(left), None) => {
                            return Poll::Ready(Err(RetryAfterError::TooEarly(left)));
                        }
                    }
                }
                StateProjection::Readying => {
                    let (inner, _) = this.pending.as_mut().expect(POLLED_AGAIN);
                    ready!(inner.poll_ready(context)).map_err(RetryAfterError::Inner)?;
                    let (mut inner, request) = this.pending.take().expect(POLLED_AGAIN);
                    let copy = this.settings.clone_for_retry(*this.retries_left, &request);
                    *this.pending = copy.map(|copy| (inner.clone(), copy));
                    State::Sending { sending: inner.call(request) }
                }
                StateProjection::Sending { sending } => {
                    let response = ready!(sending.poll(context)).map_err(RetryAfterError::Inner)?;
                    let again = this.settings.learn(this.authority, &response);
                    let in_time = |until: &Timestamp| this.deadline.is_none_or(|end| *until <= end);
                    let Some(until) = again.filter(in_time).filter(|_| this.pending.is_some())
                    else {
                        return Poll::Ready(Ok(response));
                    };
                    *this.retries_left = this.retries_left.saturating_sub(1);
                    let waiting = wait(this.settings, this.authority, until, *this.deadline);
                    State::Waiting { waiting, refusal: this.deadline.map(|_| response) }
                }
            };
            this.state.set(next);
        }
    }
}

fn wait<R, P>(
    settings: &Settings<R, P>,
    authority: &str,
    until: Timestamp,
    deadline: Option<Timestamp>,
) -> Waiting {
    let (not_before, bounds) = (Arc::clone(&settings.not_before), settings.bounds.clone());
    Box::pin(wait_until(not_before, authority.into(), until, bounds, deadline))
}

/// Waits until this instant and until the server's wait is over, which can be extended meanwhile. Fails with the
/// rest of the wait if that is beyond the deadline.
async fn wait_until(
    not_before: Arc<NotBefore>,
    authority: Box<str>,
    until: Timestamp,
    bounds: WaitBounds,
    deadline: Option<Timestamp>,
) -> Result<(), Duration> {
    loop {
        let now = bounds.now();
        let known = not_before.wait(&authority, now).unwrap_or_default();
        let left = known.max(until.since(now));
        if left.is_zero() {
            return Ok(());
        }
        tokio::time::sleep(bounds.sleep(left, deadline).ok_or(left)?).await;
    }
}

impl<Inner: Service<R>, R> fmt::Debug for RetryAfterFuture<Inner, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetryAfterFuture")
    }
}
