//! The layer for `axum::serve`, which makes a service for each connection.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::serve::{IncomingStream, Listener};
use http::Response;
use tower::util::MapResponse;
use tower_layer::Layer;
use tower_service::Service;
use waterclock::Store;

use super::{RateLimit, RateLimitConnections, ResponseBody};

/// `axum::serve` accepts one type of body.
type ToBody = fn(Response<ResponseBody<Body>>) -> Response<Body>;

/// Makes a service for each connection, for `axum::serve`.
#[derive(Clone, Debug)]
pub struct MakeRateLimit<App, S> {
    pub(super) connections: RateLimitConnections<S>,
    pub(super) app: App,
}

impl<App, S, L> Service<IncomingStream<'_, L>> for MakeRateLimit<App, S>
where
    App: Clone,
    S: Store + 'static,
    L: Listener<Addr = SocketAddr>,
{
    type Response = MapResponse<RateLimit<App, S>, ToBody>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, connection: IncomingStream<'_, L>) -> Self::Future {
        let layer = self.connections.layer_for(connection.remote_addr().ip());
        let limited = layer.layer(self.app.clone());
        ready(Ok(MapResponse::new(limited, |response| response.map(ResponseBody::into_axum))))
    }
}
