//! Health and reflection, which need no token: small, few, and read within some time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt;

use crate::access::{Role, bearer_of};
use crate::buffers::Hold;
use crate::connections::Guest;
use crate::observe::Face;
use crate::server::Server;

/// What a client may send to the health service in one call, and to reflection, in bytes.
pub(super) const MAX_HEALTH: usize = 4 * 1_024;
pub(super) const MAX_REFLECTION: usize = 64 * 1_024;
/// So much of it does not count as received, so that health checks are answered however many others receive.
const FREE: usize = 512;
/// Calls of these services at the same time, on one connection.
const MAX_CALLS: usize = 16;

const WATCH: &str = "/grpc.health.v1.Health/Watch";
const REFLECTION: &str = "/grpc.reflection.";

/// Answers a call of any service but the rate limit service.
pub(super) async fn answer(
    server: &Arc<Server>,
    routes: Routes,
    request: Request<Incoming>,
    guest: &Arc<Guest>,
) -> Response<Body> {
    let Some(place) = Counted::new(guest, |guest| &guest.aside, MAX_CALLS) else {
        let why = format!("more than {MAX_CALLS} calls of this service on one connection");
        return Status::resource_exhausted(why).into_http();
    };
    // No token is needed; a client that has one is known by it.
    if server.is_open() || bearer_of(request.headers()).is_some() {
        let role = (Face::Grpc, Role::Check);
        _ = server.authorize(role, guest, request.headers(), ()).await;
    }
    let path = request.uri().path();
    let most = if path.starts_with(REFLECTION) { MAX_REFLECTION } else { MAX_HEALTH };
    let mut watch = None;
    if path == WATCH {
        watch = server.watches().begin(guest);
        if watch.is_none() {
            return Status::resource_exhausted("too many open watches").into_http();
        }
    }
    let request = request.map(|body| BoundedBody {
        body,
        received: 0,
        most,
        hold: server.buffers().hold(Face::Grpc, guest.origin()),
        server: Arc::clone(server),
        guest: Arc::clone(guest),
    });
    let answer = routes.oneshot(request);
    // The answer of reflection begins before its questions, and a watch lasts; that of a health check has a message.
    let Ok(Ok(answer)) = timeout(server.patience().head * 2, answer).await else {
        return Status::deadline_exceeded("the request took too long to arrive").into_http();
    };
    // The call lasts until its answer is sent, or the peer cancels it.
    answer.map(|body| {
        Body::new(body.map_frame(move |frame| {
            _ = (&place, &watch);
            frame
        }))
    })
}

/// One of so many things that a connection has at the same time.
struct Counted {
    guest: Arc<Guest>,
    of: fn(&Guest) -> &AtomicUsize,
}

impl Counted {
    fn new(guest: &Arc<Guest>, of: fn(&Guest) -> &AtomicUsize, most: usize) -> Option<Counted> {
        let more = |many| (many < most).then_some(many + 1);
        of(guest).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Counted { guest: Arc::clone(guest), of })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.of)(&self.guest).fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a client sends in one call: bounded, and taken from the budget of receive buffers as it arrives.
struct BoundedBody {
    body: Incoming,
    received: usize,
    most: usize,
    hold: Hold,
    server: Arc<Server>,
    guest: Arc<Guest>,
}

impl BoundedBody {
    fn take(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, Status> {
        let length = frame.data_ref().map_or(0, Bytes::len);
        let counted = self.received.max(FREE);
        self.received += length;
        if self.received > self.most {
            let why = format!("a call may send {} bytes to this service", self.most);
            return Err(Status::out_of_range(why));
        }
        let more = self.received.saturating_sub(counted);
        if more == 0 || self.hold.grow(more, self.guest.is_known()) {
            return Ok(frame);
        }
        self.server.engine.metrics().count_receive_refused(Face::Grpc);
        Err(Status::resource_exhausted("the server is receiving too many long requests"))
    }
}

impl hyper::body::Body for BoundedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| match frame {
            Ok(frame) => self.take(frame),
            Err(error) => Err(Status::from_error(error.into())),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
