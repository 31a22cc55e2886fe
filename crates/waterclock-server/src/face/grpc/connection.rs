//! One HTTP/2 connection, with a limit on everything.

use std::convert::Infallible;
use std::future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split};
use tokio::time::timeout;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::ServiceExt;

use super::authorize;
use super::proto::{METHOD, RateLimitResponse};
use super::request::MAX_MESSAGE;
use super::response::refusal;
use crate::buffers::Hold;
use crate::observe::Face;
use crate::pace::{Pace, UnderWay};
use crate::places::Guest;
use crate::server::{Phase, Server};

/// The most concurrent requests on one connection.
const MAX_STREAMS: u32 = 256;
/// All header fields of a request together, in bytes.
const MAX_HEAD: u32 = 16 * 1_024;
/// What a peer may send before it is read: on one stream, and on all of them.
const STREAM_WINDOW: u32 = 64 * 1_024;
const CONNECTION_WINDOW: u32 = 1_024 * 1_024;
/// Streams that a peer may reset before they are accepted (rapid reset).
const MAX_PENDING_RESETS: usize = 32;
/// Streams of one connection that we may reset for protocol errors.
const MAX_ERROR_RESETS: usize = 256;
/// How often a silent peer is pinged, and how long it has to answer.
const PING_EVERY: Duration = Duration::from_secs(20);
const PONG_WITHIN: Duration = Duration::from_secs(10);

/// Serves one connection to its end: HTTP/2 without an upgrade, plain or inside TLS.
pub(crate) async fn serve<IO>(server: &Arc<Server>, routes: Routes, stream: IO, guest: &Arc<Guest>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let patience = server.patience();
    let Ok(Some(stream)) = timeout(patience.head, expect_preface(stream)).await else { return };
    let pace = Arc::new(Pace::new(patience, Arc::clone(guest)));
    let activity = Arc::clone(&pace);
    let all = Arc::clone(server);
    let answer = service_fn(move |request: Request<Incoming>| {
        let (server, routes) = (Arc::clone(&all), routes.clone());
        let (under_way, pace) = (UnderWay::new(&pace), Arc::clone(&pace));
        async move {
            let response = answer(&server, routes, request, &pace).await?;
            // The request is under way until its answer is sent, or the peer cancels it.
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
        // Errors of a connection are the peer's to handle.
        _ = connection.as_mut() => return,
        _ = phase.wait_for(|phase| *phase >= Phase::Draining) => false,
        () = activity.idle() => true,
    };
    connection.as_mut().graceful_shutdown();
    if is_idle {
        _ = timeout(patience.head, connection).await;
    } else {
        // `Running::stop` bounds how long that may take.
        _ = connection.await;
    }
}

/// A rate limit request must have a token before its message is read, and arrive within some time; one that is too long
/// is refused. Watches and reflection may last.
async fn answer(
    server: &Arc<Server>,
    routes: Routes,
    request: Request<Incoming>,
    pace: &Pace,
) -> Result<Response<Body>, Infallible> {
    if request.uri().path() != METHOD {
        return routes.oneshot(request).await;
    }
    if let Err(status) = authorize(server, request.headers(), pace.guest()).await {
        return Ok(status.into_http());
    }
    let hold = server.buffers().hold();
    let request = request.map(|body| HeldBody { body, hold, server: Arc::clone(server) });
    let late = |_| Ok(Status::deadline_exceeded("the request took too long to arrive").into_http());
    let within = server.patience().head * 2;
    let answer = timeout(within, routes.oneshot(request)).await.unwrap_or_else(late)?;
    let status = Status::from_header_map(answer.headers());
    if status.is_some_and(|status| status.code() == Code::OutOfRange) {
        let why = format!("it is longer than {MAX_MESSAGE} bytes; refused");
        server.engine.count_undecided(Face::Grpc, &why);
        return Ok(unary(&refusal()));
    }
    Ok(answer)
}

/// An answer with one message, as the protocol frames it.
fn unary(message: &RateLimitResponse) -> Response<Body> {
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.encoded_len()).unwrap_or(0).to_be_bytes());
    framed.extend(message.encode_to_vec());
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(Bytes::from(framed)).with_trailers(future::ready(Some(Ok(trailers))));
    let mut answer = Response::new(Body::new(body));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    answer
}

/// The body of a request, whose bytes come out of the budget of receive buffers before the message is put together.
struct HeldBody {
    body: Incoming,
    hold: Hold,
    server: Arc<Server>,
}

impl hyper::body::Body for HeldBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        let held = |frame: Frame<Bytes>| {
            let length = frame.data_ref().map_or(0, Bytes::len);
            if this.hold.grow(length, true) {
                return Ok(frame);
            }
            this.server.engine.metrics().count_receive_refused(Face::Grpc);
            Err(Status::resource_exhausted(NO_ROOM))
        };
        Poll::Ready(frame.map(|frame| frame.map_err(incomplete).and_then(held)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

const NO_ROOM: &str = "the server is receiving too many long requests; nothing was decided";

fn incomplete(error: hyper::Error) -> Status {
    Status::from_error(error.into())
}

fn bounds() -> http2::Builder<TokioExecutor> {
    let mut bounds = http2::Builder::new(TokioExecutor::new());
    bounds
        // Without a timer hyper's timeouts do nothing.
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_ERROR_RESETS);
    bounds
}

/// What every HTTP/2 client sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads the preface, which hyper reads again; `None` for a peer that does not speak HTTP/2.
async fn expect_preface<IO>(mut io: IO) -> Option<impl AsyncRead + AsyncWrite + Unpin + Send>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut first = [0; PREFACE.len()];
    let mut filled = 0;
    while filled < first.len() {
        let read = io.read(&mut first[filled..]).await.ok()?;
        filled += read;
        // Another protocol: close at once.
        if read == 0 || first[..filled] != PREFACE[..filled] {
            return None;
        }
    }
    let (reader, writer) = split(io);
    Some(join(PREFACE.chain(reader), writer))
}
