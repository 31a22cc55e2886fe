//! One HTTP/2 connection, with a limit on everything.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt;

use super::authorize::Peer;
use super::preface::begin;
use super::proto::METHOD;
use crate::pace::{Pace, UnderWay};
use crate::server::{Phase, Server};

/// Requests at once on one connection.
const MOST_STREAMS: u32 = 256;
/// All header fields of a request together, in bytes.
const MOST_HEAD_BYTES: u32 = 16 * 1_024;
/// What a peer may send before it is read: on one stream, and on all of them.
const STREAM_WINDOW: u32 = 64 * 1_024;
const CONNECTION_WINDOW: u32 = 1_024 * 1_024;
/// Requests taken back before anybody has looked at them; more are an attack.
const MOST_TAKEN_BACK: usize = 32;
/// Requests that broke the protocol, on one connection; more are an attack.
const MOST_BROKEN: usize = 256;
/// How often a silent peer is asked whether it is still there, and how long it has to say so.
const PING_EVERY: Duration = Duration::from_secs(20);
const PONG_WITHIN: Duration = Duration::from_secs(10);

/// Serves one connection to its end: HTTP/2 without an upgrade, plain or inside TLS.
pub(crate) async fn serve<IO>(server: &Arc<Server>, routes: Routes, stream: IO, peer: SocketAddr)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let patience = server.patience();
    let Ok(Some(stream)) = timeout(patience.head, begin(stream)).await else { return };
    let pace = Arc::new(Pace::new(patience));
    let resting = Arc::clone(&pace);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer.ip()));
        let routes = routes.clone();
        let under_way = UnderWay::new(&pace);
        async move {
            let response = answer(routes, request, patience.head * 2).await?;
            // Until the last of the answer is out, or nobody wants it any more.
            let (head, body) = response.into_parts();
            let body = body.map_frame(move |frame| {
                _ = &under_way;
                frame
            });
            Ok::<_, Infallible>(Response::from_parts(head, Body::new(body)))
        }
    });
    let mut connection = pin!(bounds().serve_connection(TokioIo::new(stream), answer));
    let mut phase = server.phase();
    let is_idle = tokio::select! {
        // What went wrong on a connection is the peer's business, and it knows.
        _ = connection.as_mut() => return,
        _ = phase.wait_for(|phase| *phase >= Phase::Draining) => false,
        () = resting.idle() => true,
    };
    connection.as_mut().graceful_shutdown();
    if is_idle {
        _ = timeout(patience.head, connection).await;
    } else {
        // Whoever drains the server says how long that may take.
        _ = connection.await;
    }
}

/// A question must come whole within some time; what watches and reflects may last.
async fn answer(
    routes: Routes,
    request: Request<Incoming>,
    within: Duration,
) -> Result<Response<Body>, Infallible> {
    if request.uri().path() != METHOD {
        return routes.oneshot(request).await;
    }
    let late = |_| Ok(Status::deadline_exceeded("the request came too slowly").into_http());
    timeout(within, routes.oneshot(request)).await.unwrap_or_else(late)
}

fn bounds() -> http2::Builder<TokioExecutor> {
    let mut bounds = http2::Builder::new(TokioExecutor::new());
    bounds
        // Without a timer hyper's timeouts do nothing.
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN)
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(MOST_HEAD_BYTES)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_pending_accept_reset_streams(MOST_TAKEN_BACK)
        .max_local_error_reset_streams(MOST_BROKEN);
    bounds
}
