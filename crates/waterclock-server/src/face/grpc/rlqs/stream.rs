//! One stream of a proxy: reports in, assignments out, with a bound on everything.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Frame;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic::body::Body;
use waterclock::{Clock as _, Timestamp};

use super::book::Outgoing;
use super::buckets::Buckets;
use super::{DELAY, SILENCE};
use crate::access::{Attempt, Role};
use crate::buffers::Hold;
use crate::connections::Guest;
use crate::face::grpc::call::CallBody;
use crate::lasting::LastingPlace;
use crate::observe::Face;
use crate::server::{Phase, Server};

/// The longest message: the first one on a stream lists all buckets.
const MAX_MESSAGE: usize = 4 * 1_024 * 1_024;
/// Responses that wait for a proxy to read them, each about one bucket.
const MAX_WAITING: usize = 2_048;
/// A message follows a byte that says whether it is compressed, and four with its length.
const PREFIX: usize = 5;

/// Answers a call: the stream goes on in a task of its own.
pub(in super::super) async fn answer(
    server: &Arc<Server>,
    request: Request<impl CallBody>,
    guest: &Arc<Guest>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let let_in = server.authorize((Face::Grpc, Role::Check), guest, &head.headers, body).await;
    let body = match let_in {
        Ok(body) => body,
        Err(Attempt::Forbidden) => {
            return Status::permission_denied("the token lacks the role `check`").into_http();
        }
        Err(_) => {
            let why = "send a known token as `authorization: Bearer …`";
            return Status::unauthenticated(why).into_http();
        }
    };
    let Some(place) = server.quotas().begin(guest) else {
        server.engine.metrics().count_shed(Face::Grpc);
        return Status::resource_exhausted("too many open streams of quota").into_http();
    };
    let (sender, outgoing) = mpsc::channel(MAX_WAITING);
    let (end, ended) = oneshot::channel();
    let stream = Stream {
        hold: server.buffers().hold(Face::Grpc, guest.origin()),
        buckets: Buckets::new(server, guest, sender.clone()),
        server: Arc::clone(server),
        sender,
        _place: place,
    };
    tokio::spawn(async move { _ = end.send(stream.run(body).await) });
    let clock = Arc::clone(server);
    let mut answer =
        Response::new(Body::new(Responses { server: clock, outgoing, ended: Some(ended) }));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    answer
}

/// The incoming half.
struct Stream {
    server: Arc<Server>,
    buckets: Buckets,
    sender: mpsc::Sender<Outgoing>,
    hold: Hold,
    _place: LastingPlace,
}

impl Stream {
    fn no_room(&self) -> Status {
        self.server.engine.metrics().count_receive_refused(Face::Grpc);
        Status::resource_exhausted("the server is receiving too many long requests")
    }

    /// Reads reports until the stream ends. The status is what the proxy is told.
    async fn run(mut self, mut body: impl CallBody) -> Status {
        let metrics = self.server.engine.metrics();
        metrics.rlqs_streams.inc();
        let server = Arc::clone(&self.server);
        let _counted = OnDrop(|| _ = server.engine.metrics().rlqs_streams.dec());
        let mut phase = self.server.phase();
        let mut received = BytesMut::new();
        let mut silent_at = Instant::now() + SILENCE;
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = self.sender.closed() => return Status::cancelled("the proxy has gone"),
                _ = phase.wait_for(|phase| *phase >= Phase::Draining) => {
                    return Status::unavailable("the server is stopping");
                }
                () = sleep_until(silent_at) => {
                    let why = format!("no report for {} s", SILENCE.as_secs());
                    return Status::deadline_exceeded(why);
                }
            };
            let piece = match frame {
                None => return Status::ok(""),
                Some(Err(error)) => return Status::from_error(error.into()),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            if !self.hold.grow(piece.len(), true) {
                return self.no_room();
            }
            received.extend_from_slice(&piece);
            loop {
                match next_message(&mut received) {
                    Ok(None) => break,
                    Ok(Some(message)) => {
                        if let Err(status) = self.buckets.take_reports(&message).await {
                            return status;
                        }
                        silent_at = Instant::now() + SILENCE;
                    }
                    Err(status) => return status,
                }
            }
            // What is left is the beginning of a message.
            received = BytesMut::from(&*received);
            self.hold.release();
            if !self.hold.grow(received.len(), true) {
                return self.no_room();
            }
        }
    }
}

/// The next whole message; none if more has to come.
fn next_message(received: &mut BytesMut) -> Result<Option<Bytes>, Status> {
    let Some(prefix) = received.get(..PREFIX) else { return Ok(None) };
    if prefix[0] != 0 {
        return Err(Status::unimplemented("compressed messages are not supported"));
    }
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > MAX_MESSAGE {
        let why = format!("a message may have {MAX_MESSAGE} bytes");
        return Err(Status::resource_exhausted(why));
    }
    if received.len() < PREFIX + length {
        return Ok(None);
    }
    received.advance(PREFIX);
    Ok(Some(received.split_to(length).freeze()))
}

/// Runs a function when it is dropped, also where its task is cancelled.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// The outgoing half: responses, then the status.
struct Responses {
    server: Arc<Server>,
    outgoing: mpsc::Receiver<Outgoing>,
    ended: Option<oneshot::Receiver<Status>>,
}

impl Responses {
    /// An assignment that was not sent in time must not arrive later: its units may be counted as gone by then.
    fn is_late(&self, made: Timestamp) -> bool {
        self.server.engine.metrics().clock().now().since(made) > DELAY / 2
    }
}

impl hyper::body::Body for Responses {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        while let Poll::Ready(Some((made, response))) = self.outgoing.poll_recv(context) {
            if !self.is_late(made) {
                return Poll::Ready(Some(Ok(Frame::data(response))));
            }
        }
        let Some(ended) = &mut self.ended else { return Poll::Ready(None) };
        let Poll::Ready(status) = Pin::new(ended).poll(context) else { return Poll::Pending };
        self.ended = None;
        let status = status.unwrap_or_else(|_| Status::unavailable("the stream has ended"));
        let mut trailers = http::HeaderMap::new();
        Poll::Ready(Some(match status.add_header(&mut trailers) {
            Ok(()) => Ok(Frame::trailers(trailers)),
            Err(status) => Err(status),
        }))
    }
}
