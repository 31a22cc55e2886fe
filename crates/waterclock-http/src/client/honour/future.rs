use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower_service::Service;
use waterclock::Timestamp;

use super::not_before::NotBefore;
use super::{HonourError, Manner};
use crate::client::AGAIN;
use crate::client::patience::Patience;

type Waiting = Pin<Box<dyn Future<Output = Result<(), Duration>> + Send>>;

pin_project! {
    /// The response of a [`Honour`](crate::Honour): a wait first, where the server asked for one, then the
    /// client's own response, and maybe both again.
    pub struct HonourFuture<Inner, R>
    where
        Inner: Service<R>,
    {
        manner: Arc<Manner<R, Inner::Response>>,
        authority: String,
        deadline: Option<Timestamp>,
        retries_left: usize,
        // What is to be sent when the wait is over, and by whom; while sending, a copy to send again.
        held: Option<(Inner, R)>,
        #[pin]
        state: State<Inner::Future, Inner::Response>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<Sending, P> {
        Waiting {
            waiting: Waiting,
            // The refusal that is waited for, while there is a deadline that the wait can grow beyond.
            refusal: Option<P>,
        },
        Readying,
        Sending {
            #[pin]
            sending: Sending,
        },
    }
}

impl<Inner: Service<R>, R> HonourFuture<Inner, R> {
    pub(super) fn waiting(
        manner: Arc<Manner<R, Inner::Response>>,
        authority: String,
        inner: Inner,
        request: R,
    ) -> Self {
        let deadline = manner.patience.deadline();
        let waiting = wait(&manner, &authority, Timestamp::ZERO, deadline);
        let retries_left = manner.retries;
        let (held, state) = (Some((inner, request)), State::Waiting { waiting, refusal: None });
        Self { manner, authority, deadline, retries_left, held, state }
    }

    pub(super) fn sending(
        manner: Arc<Manner<R, Inner::Response>>,
        authority: String,
        sending: Inner::Future,
        again: Option<(Inner, R)>,
    ) -> Self {
        let (deadline, retries_left) = (manner.patience.deadline(), manner.retries);
        let state = State::Sending { sending };
        Self { manner, authority, deadline, retries_left, held: again, state }
    }
}

impl<Inner: Service<R> + Clone, R> Future for HonourFuture<Inner, R> {
    type Output = Result<Inner::Response, HonourError<Inner::Error>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Waiting { waiting, refusal } => {
                    match (ready!(waiting.as_mut().poll(context)), refusal.take()) {
                        (Ok(()), _) => State::Readying,
                        (Err(_), Some(refusal)) => return Poll::Ready(Ok(refusal)),
                        (Err(left), None) => {
                            return Poll::Ready(Err(HonourError::TooEarly(left)));
                        }
                    }
                }
                StateProjection::Readying => {
                    let (inner, _) = this.held.as_mut().expect(AGAIN);
                    ready!(inner.poll_ready(context)).map_err(HonourError::Inner)?;
                    let (mut inner, request) = this.held.take().expect(AGAIN);
                    let copy = this.manner.copy_for(*this.retries_left, &request);
                    *this.held = copy.map(|copy| (inner.clone(), copy));
                    State::Sending { sending: inner.call(request) }
                }
                StateProjection::Sending { sending } => {
                    let response = ready!(sending.poll(context)).map_err(HonourError::Inner)?;
                    let again = this.manner.hear(this.authority, &response);
                    let in_time = |until: &Timestamp| this.deadline.is_none_or(|end| *until <= end);
                    let Some(until) = again.filter(in_time).filter(|_| this.held.is_some()) else {
                        return Poll::Ready(Ok(response));
                    };
                    *this.retries_left = this.retries_left.saturating_sub(1);
                    let waiting = wait(this.manner, this.authority, until, *this.deadline);
                    State::Waiting { waiting, refusal: this.deadline.map(|_| response) }
                }
            };
            this.state.set(next);
        }
    }
}

fn wait<R, P>(
    manner: &Manner<R, P>,
    authority: &str,
    until: Timestamp,
    deadline: Option<Timestamp>,
) -> Waiting {
    let (not_before, patience) = (Arc::clone(&manner.not_before), manner.patience.clone());
    Box::pin(stay_away(not_before, authority.into(), until, patience, deadline))
}

/// Until this instant, and for as long as the server is said to want it; that can become longer meanwhile.
/// Gives up with what is left to wait.
async fn stay_away(
    not_before: Arc<NotBefore>,
    authority: Box<str>,
    until: Timestamp,
    patience: Patience,
    deadline: Option<Timestamp>,
) -> Result<(), Duration> {
    loop {
        let now = patience.now();
        let known = not_before.wait(&authority, now).unwrap_or_default();
        let left = known.max(until.since(now));
        if left.is_zero() {
            return Ok(());
        }
        tokio::time::sleep(patience.sleep(left, deadline).ok_or(left)?).await;
    }
}

impl<Inner: Service<R>, R> fmt::Debug for HonourFuture<Inner, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HonourFuture")
    }
}
