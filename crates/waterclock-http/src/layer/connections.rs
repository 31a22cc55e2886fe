use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use waterclock::Store;

use super::RateLimitLayer;
use super::decide::Gate;

/// A layer for each connection of a server, all of which count together.
///
/// A key that is the client's address needs to know who a connection comes from, and no request can tell.
/// With this the compiler sees to it that somebody does.
pub struct RateLimitConnections<S> {
    gate: Arc<Gate<S>>,
}

impl<S: Store + 'static> RateLimitConnections<S> {
    pub(super) fn new(gate: Gate<S>) -> Self {
        Self { gate: Arc::new(gate) }
    }

    /// The layer for a connection from this address.
    #[must_use]
    pub fn layer_for(&self, peer: IpAddr) -> RateLimitLayer<S> {
        RateLimitLayer::at(Arc::clone(&self.gate), peer)
    }

    /// What `axum::serve` serves: this application, with the layer around it.
    #[cfg(feature = "axum")]
    pub fn make_service<App>(self, app: App) -> MakeRateLimit<App, S> {
        MakeRateLimit { connections: self, app }
    }
}

impl<S> Clone for RateLimitConnections<S> {
    fn clone(&self) -> Self {
        Self { gate: Arc::clone(&self.gate) }
    }
}

impl<S> fmt::Debug for RateLimitConnections<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = &self.gate.rules;
        f.debug_struct("RateLimitConnections").field("rules", rules).finish_non_exhaustive()
    }
}

#[cfg(feature = "axum")]
pub use for_axum::MakeRateLimit;

#[cfg(feature = "axum")]
mod for_axum {
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

    use super::RateLimitConnections;
    use crate::layer::{RateLimit, ResponseBody};

    /// `axum::serve` takes one kind of body.
    type ToBody = fn(Response<ResponseBody<Body>>) -> Response<Body>;

    /// Makes a service for each connection: what `axum::serve` wants.
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
}
