//! One connection: HTTP/1 or HTTP/2, with a limit on everything.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::{HeaderValue, Request, Version, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;
use tower::ServiceExt;

use super::plain::{self, MAX_FIELDS, Rewound};
use super::request;
use crate::connections::Guest;
use crate::pace::{Pace, Paced, UnderWay};
use crate::rarely::Rarely;
use crate::server::{Phase, Server};

/// The longest head of a request, in bytes.
const MAX_HEAD: usize = 16 * 1_024;
const MAX_STREAMS: u32 = 256;
/// What a peer may send before it is read: on one stream of HTTP/2, and on all of them. h2 closes a connection with more
/// than half of that in small frames that were not read, at 256 bytes each: so many may come at once on all streams.
const STREAM_WINDOW: u32 = 32 * 1_024;
const CONNECTION_WINDOW: u32 = 4 * 256 * MAX_STREAMS;

/// Serves a connection until it ends, or until the server drains.
pub(crate) async fn serve<IO>(server: &Arc<Server>, router: Router, stream: IO, guest: &Arc<Guest>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pace = Arc::new(Pace::new(server.patience(), Arc::clone(guest)));
    let mut io = Paced::new(stream, Arc::clone(&pace));
    let ends = pin!(ends(server.phase(), &pace, server.quiet()));
    let mut ends = Rarely::new(ends);
    let stops = AtomicBool::new(false);
    let unanswered = {
        let mut plain = pin!(plain::serve(server, &mut io, &pace, &stops));
        tokio::select! {
            biased;
            unanswered = plain.as_mut() => unanswered,
            is_idle = &mut ends => {
                stops.store(true, Ordering::Relaxed);
                finish(server, is_idle, plain)
                    .await
                    .unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
            }
        }
    };
    match unanswered {
        Ok(Some(first)) => {
            let io = Rewound::new(first, io);
            serve_others(server, router, io, &pace, ends).await;
        }
        Ok(None) => _ = io.shutdown().await,
        // Errors of a connection are the peer's to handle.
        Err(_) => {}
    }
}

/// The same for a router that has other paths: nothing is answered before it.
pub(crate) async fn serve_only<IO>(
    server: &Arc<Server>,
    router: Router,
    stream: IO,
    guest: &Arc<Guest>,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pace = Arc::new(Pace::new(server.patience(), Arc::clone(guest)));
    let io = Paced::new(stream, Arc::clone(&pace));
    let ends = pin!(ends(server.phase(), &pace, server.quiet()));
    serve_others(server, router, io, &pace, Rarely::new(ends)).await;
}

/// Waits for the end of a connection that is to close.
async fn finish<T>(server: &Server, is_idle: bool, end: impl Future<Output = T>) -> Option<T> {
    if is_idle {
        // A peer that does not read its answers does not keep the connection either.
        timeout(server.patience().body, end).await.ok()
    } else {
        // `Running::stop` bounds how long that may take.
        Some(end.await)
    }
}

/// Serves the requests that are not plain, and all after the first of these.
async fn serve_others<IO>(
    server: &Arc<Server>,
    router: Router,
    io: IO,
    pace: &Arc<Pace>,
    ends: impl Future<Output = bool>,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (all, pace) = (Arc::clone(server), Arc::clone(pace));
    let rest = UnreadBody::default();
    let answer = service_fn(move |request: Request<Incoming>| {
        let under_way = UnderWay::new(&pace);
        let (server, router) = (Arc::clone(&all), router.clone());
        let rest = (request.version() < Version::HTTP_2).then(|| rest.clone());
        let mut request = request.map(|body| TrackedBody { body: Some(body), rest: rest.clone() });
        request.extensions_mut().insert(Arc::clone(&pace));
        async move {
            let response = match request::addressed(&request) {
                Ok(()) => router.oneshot(request).await,
                Err(problem) => Ok(problem.into_response()),
            };
            // Announced, so that the client does not send its next request to a connection about to close.
            let closes = match rest {
                Some(rest) => !rest.is_drained().await || server.is_leaving(),
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
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_FIELDS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(32)
        .max_local_error_reset_streams(256)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10));
    let connection = builder.serve_connection(TokioIo::new(io), answer);
    let mut connection = pin!(connection);
    let is_idle = tokio::select! {
        _ = connection.as_mut() => return,
        is_idle = ends => is_idle,
    };
    connection.as_mut().graceful_shutdown();
    _ = finish(server, is_idle, connection).await;
}

/// Waits until the connection is to close: because it is idle, or because the server drains.
async fn ends(phase: watch::Receiver<Phase>, pace: &Pace, quiet: Duration) -> bool {
    tokio::select! {
        () = drained(phase, pace, quiet) => false,
        () = pace.idle() => true,
    }
}

/// Waits until the server drains and the connection can close without losing a request.
async fn drained(mut phase: watch::Receiver<Phase>, pace: &Pace, quiet: Duration) {
    _ = phase.wait_for(|phase| *phase >= Phase::Draining).await;
    pace.closable(quiet).await;
}

/// What was sent together with the head of a request has arrived by then.
const DRAIN_TIME: Duration = Duration::from_millis(50);
/// A longer rest of a body is not worth reading.
const MAX_DRAINED: usize = 64 * 1_024;

/// The part of a body that the handler has not read, shared by a connection and its request.
///
/// In HTTP/1 it is in the way of the next request. What has arrived is discarded; if more is to come, hyper closes the
/// connection, and the answer should announce that before the peer sends the next request.
#[derive(Clone, Default)]
struct UnreadBody(Arc<Mutex<Option<Incoming>>>);

impl UnreadBody {
    /// Whether nothing is left, or little enough to discard.
    async fn is_drained(&self) -> bool {
        let rest = self.0.lock().take();
        let Some(mut body) = rest else { return true };
        let discard = async {
            let mut bytes = 0;
            while let Some(Ok(frame)) = body.frame().await {
                bytes += frame.data_ref().map_or(0, Bytes::len);
                if bytes > MAX_DRAINED {
                    return false;
                }
            }
            body.is_end_stream()
        };
        timeout(DRAIN_TIME, discard).await.unwrap_or(false)
    }
}

/// The body of a request. Dropped early, it leaves the rest to its [`UnreadBody`].
struct TrackedBody {
    body: Option<Incoming>,
    rest: Option<UnreadBody>,
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if let (Some(body), Some(UnreadBody(rest))) = (self.body.take(), &self.rest)
            && !body.is_end_stream()
        {
            *rest.lock() = Some(body);
        }
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(&mut *body).poll_frame(context);
        if let Poll::Ready(None) = frame {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
