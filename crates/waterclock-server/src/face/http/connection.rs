//! One connection: HTTP/1 or HTTP/2, with a limit on everything.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::{HeaderValue, Request, Version, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;
use tower::ServiceExt;

use super::Peer;
use super::rest::{Leaving, Rest};
use crate::pace::{Pace, UnderWay};
use crate::paced::Paced;
use crate::server::{Phase, Server};

/// The longest head of a request, in bytes.
const MOST_HEAD_BYTES: usize = 16 * 1_024;
const MOST_STREAMS: u32 = 256;
/// What a peer may send before it is read: on one stream of HTTP/2, and on all of them.
const STREAM_WINDOW: u32 = 64 * 1_024;
const CONNECTION_WINDOW: u32 = 256 * 1_024;

/// Serves a connection until it ends, or until the server drains.
pub(crate) async fn serve<IO>(server: &Arc<Server>, router: Router, stream: IO, peer: SocketAddr)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pace = Arc::new(Pace::new(server.patience()));
    let io = TokioIo::new(Paced::new(stream, Arc::clone(&pace)));
    let resting = Arc::clone(&pace);
    let phase = server.phase();
    let leaving = phase.clone();
    let rest = Rest::default();
    let answer = service_fn(move |request: Request<Incoming>| {
        let under_way = UnderWay::new(&pace);
        let (router, leaving) = (router.clone(), leaving.clone());
        let rest = (request.version() < Version::HTTP_2).then(|| rest.clone());
        let mut request = request.map(|body| Leaving::new(body, rest.clone()));
        request.extensions_mut().insert(Peer(peer));
        request.extensions_mut().insert(Arc::clone(&pace));
        async move {
            let response = router.oneshot(request).await;
            // Whoever is told now does not send the next request to a connection about to close.
            let closes = match rest {
                Some(rest) => !rest.is_gone().await || *leaving.borrow() >= Phase::LameDuck,
                None => false,
            };
            drop(under_way);
            response.map(|mut response| {
                if closes {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                response
            })
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Without a timer hyper's timeouts do nothing.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(server.patience().idle * 2)
        .max_buf_size(MOST_HEAD_BYTES)
        .max_headers(64);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(u32::try_from(MOST_HEAD_BYTES).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(32)
        .max_local_error_reset_streams(256)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10));
    let connection = builder.serve_connection(io, answer);
    let mut connection = std::pin::pin!(connection);
    let is_idle = tokio::select! {
        _ = connection.as_mut() => return,
        () = may_part(phase, &resting, server.quiet()) => false,
        () = resting.idle() => true,
    };
    connection.as_mut().graceful_shutdown();
    if is_idle {
        // A peer that does not read what it asked for does not keep the connection either.
        _ = timeout(server.patience().body, connection).await;
    } else {
        // Whoever drains the server says how long that may take.
        _ = connection.await;
    }
}

/// Waits until the server drains and nothing would be lost here.
async fn may_part(mut phase: watch::Receiver<Phase>, pace: &Pace, quiet: Duration) {
    _ = phase.wait_for(|phase| *phase >= Phase::Draining).await;
    pace.may_part(quiet).await;
}
