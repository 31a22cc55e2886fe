use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_service::Service;

use super::{PaceError, PaceFuture, Pacing};

/// A client whose requests a [`PaceLayer`](crate::PaceLayer) holds back until it is their turn.
pub struct Pace<Inner, R> {
    inner: Inner,
    pacing: Arc<Pacing<R>>,
}

impl<Inner, R> Pace<Inner, R> {
    pub(super) fn new(inner: Inner, pacing: Arc<Pacing<R>>) -> Self {
        Self { inner, pacing }
    }
}

impl<Inner: Clone, R> Clone for Pace<Inner, R> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), Arc::clone(&self.pacing))
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
        let pacing = &self.pacing;
        let (key, cost) = ((pacing.key)(&request), (pacing.cost)(&request));
        match pacing.pacer.take_now(&key, cost) {
            Some(Ok(())) => PaceFuture::sending(self.inner.call(request)),
            Some(Err(stopped)) => PaceFuture::stopped(stopped),
            None => {
                let turn = pacing.pacer.take(key, cost, pacing.patience.clone(), pacing.backlog);
                // A service that is ready may hold something that others need, such as a connection. It
                // is given back while the request waits, and asked for again afterwards.
                self.inner = self.inner.clone();
                PaceFuture::waiting(turn, self.inner.clone(), request)
            }
        }
    }
}

impl<Inner: fmt::Debug, R> fmt::Debug for Pace<Inner, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace").field("inner", &self.inner).finish_non_exhaustive()
    }
}
