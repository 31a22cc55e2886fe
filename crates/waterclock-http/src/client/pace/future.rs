use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use super::PaceError;
use super::error::Stopped;
use super::pacer::Turn;
use crate::client::AGAIN;

pin_project! {
    /// The response of a [`Pace`](crate::Pace): the wait first, where there is one, and then the client's own
    /// response. Dropped while it waits, it leaves the line.
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
            // Until it is their turn.
            held: Option<(Inner, R)>,
        },
        Readying {
            inner: Inner,
            request: Option<R>,
        },
        Sending {
            #[pin]
            sending: Sending,
        },
        Stopped {
            stopped: Option<Stopped>,
        },
    }
}

impl<Inner: Service<R>, R> PaceFuture<Inner, R> {
    pub(super) fn waiting(turn: Turn, inner: Inner, request: R) -> Self {
        Self { state: State::Waiting { turn, held: Some((inner, request)) } }
    }

    pub(super) fn sending(sending: Inner::Future) -> Self {
        Self { state: State::Sending { sending } }
    }

    pub(super) fn stopped(stopped: Stopped) -> Self {
        Self { state: State::Stopped { stopped: Some(stopped) } }
    }
}

impl<Inner: Service<R>, R> Future for PaceFuture<Inner, R> {
    type Output = Result<Inner::Response, PaceError<Inner::Error>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Waiting { turn, held } => {
                    ready!(turn.as_mut().poll(context))?;
                    let (inner, request) = held.take().expect(AGAIN);
                    State::Readying { inner, request: Some(request) }
                }
                StateProjection::Readying { inner, request } => {
                    ready!(inner.poll_ready(context)).map_err(PaceError::Inner)?;
                    State::Sending { sending: inner.call(request.take().expect(AGAIN)) }
                }
                StateProjection::Sending { sending } => {
                    return sending.poll(context).map_err(PaceError::Inner);
                }
                StateProjection::Stopped { stopped } => {
                    return Poll::Ready(Err(stopped.take().expect(AGAIN).into()));
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
