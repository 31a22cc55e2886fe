//! The service that holds requests back until it is their turn, and its future.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use super::pacer::{Turn, TurnRequest};
use super::{PaceError, Settings};
use crate::client::POLLED_AGAIN;

/// A client whose requests a [`PaceLayer`](crate::PaceLayer) holds back until it is their turn.
pub struct Pace<Inner, R> {
    pub(super) inner: Inner,
    pub(super) settings: Arc<Settings<R>>,
}

impl<Inner: Clone, R> Clone for Pace<Inner, R> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), settings: Arc::clone(&self.settings) }
    }
}

impl<Inner: Service<R> + Clone, R> Service<R> for Pace<Inner, R> {
    type Response = Inner::Response;
    type Error = PaceError<Inner::Error>;
    type Future = PaceFuture<Inner, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(PaceError::Inner)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let settings = &self.settings;
        let (key, cost) = ((settings.key)(&request), (settings.cost)(&request));
        if settings.pacer.takes_now(&key, cost) {
            return PaceFuture { state: State::Sending { sending: self.inner.call(request) } };
        }
        let (bounds, backlog) = (settings.bounds.clone(), settings.backlog);
        let turn = settings.pacer.take(TurnRequest { key, cost, bounds, backlog });
        // A ready service may hold something that others need, such as a connection. It is released while the
        // request waits, and polled for readiness again afterwards.
        self.inner = self.inner.clone();
        let pending = Some((self.inner.clone(), request));
        PaceFuture { state: State::Waiting { turn, pending } }
    }
}

impl<Inner: fmt::Debug, R> fmt::Debug for Pace<Inner, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace").field("inner", &self.inner).finish_non_exhaustive()
    }
}

pin_project! {
    /// The response of a [`Pace`](crate::Pace): it waits for its turn if necessary, then for the client's
    /// response. Dropped while it waits, it leaves the queue.
    pub struct PaceFuture<Inner, R>
    where
        Inner: Service<R>,
    {
        #[pin]
        state: State<Inner, R, Inner::Future>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<Inner, R, Sending> {
        Waiting {
            turn: Turn,
            // What is sent when its turn comes.
            pending: Option<(Inner, R)>,
        },
        Readying {
            inner: Inner,
            request: Option<R>,
        },
        Sending {
            #[pin]
            sending: Sending,
        },
    }
}

impl<Inner: Service<R>, R> Future for PaceFuture<Inner, R> {
    type Output = Result<Inner::Response, PaceError<Inner::Error>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Waiting { turn, pending } => {
                    ready!(turn.as_mut().poll(context))?;
                    let (inner, request) = pending.take().expect(POLLED_AGAIN);
                    State::Readying { inner, request: Some(request) }
                }
                StateProjection::Readying { inner, request } => {
                    ready!(inner.poll_ready(context)).map_err(PaceError::Inner)?;
                    State::Sending { sending: inner.call(request.take().expect(POLLED_AGAIN)) }
                }
                StateProjection::Sending { sending } => {
                    return sending.poll(context).map_err(PaceError::Inner);
                }
            };
            state.set(next);
        }
    }
}

impl<Inner: Service<R>, R> fmt::Debug for PaceFuture<Inner, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PaceFuture")
    }
}
