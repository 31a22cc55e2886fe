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
use tower::ServiceExt;

use super::Peer;
use crate::pace::{Pace, Paced};
use crate::server::{Phase, Server};

/// The longest head of a request, in bytes.
const MOST_HEAD_BYTES: usize = 16 * 1_024;
const MOST_STREAMS: u32 = 256;

/// Serves a connection until it ends, or until the server drains.
pub(crate) async fn serve<IO>(server: &Arc<Server>, router: Router, stream: IO, peer: SocketAddr)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pace = Arc::new(Pace::new(server.patience()));
    let io = TokioIo::new(Paced::new(stream, Arc::clone(&pace)));
    let resting = Arc::clone(&pace);
    let mut phase = server.phase();
    let leaving = phase.clone();
    let answer = service_fn(move |mut request: Request<Incoming>| {
        pace.request_begins();
        let (pace, router) = (Arc::clone(&pace), router.clone());
        let goodbye = *leaving.borrow() >= Phase::LameDuck && request.version() < Version::HTTP_2;
        request.extensions_mut().insert(Peer(peer));
        async move {
            let response = router.oneshot(request).await;
            pace.request_ends();
            response.map(|mut response| {
                if goodbye {
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
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10));
    let connection = builder.serve_connection(io, answer);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = phase.wait_for(|phase| *phase == Phase::Draining) => {}
        () = resting.idle() => {}
    }
    connection.as_mut().graceful_shutdown();
    _ = connection.await;
}
