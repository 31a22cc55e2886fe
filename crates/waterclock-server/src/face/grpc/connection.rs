//! One HTTP/2 connection, with a limit on everything.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split};
use tokio::time::timeout;
use tonic::Status;
use tonic::service::Routes;

use super::call::AnswerBody;
use super::{aside, call, proto, rate_limiter, rlqs};
use crate::connections::Guest;
use crate::pace::{Pace, UnderWay};
use crate::rarely::Rarely;
use crate::server::{Phase, Server};

/// The most concurrent requests on one connection.
const MAX_STREAMS: u32 = 256;
/// All header fields of a request together, in bytes.
const MAX_HEAD: u32 = 16 * 1_024;
/// What a peer may send before it is read: on one stream, and on all of them. h2 closes a connection with more than half
/// of that in small frames that were not read, at 256 bytes each: so many may come at once on all streams.
const STREAM_WINDOW: u32 = 32 * 1_024;
const CONNECTION_WINDOW: u32 = 4 * 256 * MAX_STREAMS;
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
        let server = Arc::clone(&all);
        let under_way = UnderWay::new(&pace);
        // Cloned only for a call that needs them.
        let path = request.uri().path();
        let is_ours = rate_limiter::is_path(path);
        let routes = (call::Method::of(path).is_none() && !is_ours).then(|| routes.clone());
        async move {
            let guest = under_way.pace().guest();
            let response = match routes {
                None if is_ours => Box::pin(rate_limiter::answer(&server, request, guest)).await,
                None => call::answer(&server, request, guest).await,
                Some(_) if request.uri().path() == proto::rlqs::METHOD => {
                    rlqs::answer(&server, request, guest).await.map(AnswerBody::Other)
                }
                // Boxed, because it is rare and large.
                Some(routes) => Box::pin(aside::answer(&server, routes, request, guest))
                    .await
                    .map(AnswerBody::Other),
            };
            Ok::<_, Infallible>(response.map(|body| SentBody { body, _under_way: under_way }))
        }
    });
    let mut connection = pin!(bounds().serve_connection(TokioIo::new(stream), answer));
    let mut phase = server.phase();
    let ends = pin!(async {
        tokio::select! {
            _ = phase.wait_for(|phase| *phase >= Phase::Draining) => false,
            () = activity.idle() => true,
        }
    });
    let is_idle = tokio::select! {
        // Errors of a connection are the peer's to handle.
        _ = connection.as_mut() => return,
        is_idle = Rarely::new(ends) => is_idle,
    };
    connection.as_mut().graceful_shutdown();
    if is_idle {
        _ = timeout(patience.head, connection).await;
    } else {
        // `Running::stop` bounds how long that may take.
        _ = connection.await;
    }
}

/// The body of an answer. The request is under way until it is sent, or the peer cancels it.
struct SentBody {
    body: AnswerBody,
    _under_way: UnderWay,
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// The body of an answer without a connection.
#[cfg(feature = "fuzzing")]
pub(crate) struct AnyBody(pub(super) AnswerBody);

#[cfg(feature = "fuzzing")]
impl Body for AnyBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0.poll_frame(context)
    }
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
