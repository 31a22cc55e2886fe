//! The service that the layer wraps around another.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;
use waterclock::Store;

use super::gate::{Gate, PeerSource, Ruling};
use super::{ResponseBody, ResponseFuture};

/// A service whose requests are limited by a [`RateLimitLayer`](crate::RateLimitLayer).
pub struct RateLimit<Inner, S> {
    pub(super) inner: Inner,
    pub(super) gate: Arc<Gate<S>>,
    pub(super) peer: PeerSource,
}

impl<Inner: Clone, S> Clone for RateLimit<Inner, S> {
    fn clone(&self) -> Self {
        let (gate, peer) = (Arc::clone(&self.gate), self.peer.clone());
        Self { inner: self.inner.clone(), gate, peer }
    }
}

impl<Inner, S, Sent, Served> Service<Request<Sent>> for RateLimit<Inner, S>
where
    Inner: Service<Request<Sent>, Response = Response<Served>> + Clone,
    Served: Body,
    S: Store + 'static,
{
    type Response = Response<ResponseBody<Served>>;
    type Error = Inner::Error;
    type Future = ResponseFuture<Inner, Sent>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Sent>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        match self.gate.decide_now(&mut parts, &self.peer) {
            Some(Ruling::Admit(fields, on_end)) => {
                let serving = self.inner.call(Request::from_parts(parts, body));
                ResponseFuture::serving(serving, fields, on_end)
            }
            Some(Ruling::Refuse(response)) => ResponseFuture::refused(response),
            None => {
                // This service is the one that is ready, so it moves into the future, and its clone stays.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                let deciding = Arc::clone(&self.gate).decide_later(parts, self.peer.clone());
                ResponseFuture::deciding(Box::pin(deciding), body, ready)
            }
        }
    }
}

impl<Inner: fmt::Debug, S> fmt::Debug for RateLimit<Inner, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}
