//! Wait: a check that is answered when it is admitted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use hyper::body::Frame;
use tonic::Status;
use tonic::body::Body;
use waterclock::Verb;

use super::super::call::{AnswerBody, unary};
use super::super::proto::rate_limiter::WaitRequest;
use super::check::Request;
use super::status::{of_store, of_wait, wrong};
use super::{decision, framed};
use crate::connections::Guest;
use crate::engine::PendingCheck;
use crate::observe::Face;
use crate::server::Server;
use crate::waits::{Charged, MAX_WITHIN};

/// What is to be admitted, and within which time. It borrows nothing of the message.
pub(super) async fn pending(
    server: &Server,
    request: WaitRequest,
) -> Result<(Arc<PendingCheck>, Duration), Status> {
    let within = Duration::from_micros(request.within_us);
    if within > MAX_WITHIN {
        let most = MAX_WITHIN.as_micros();
        return Err(wrong("within_us", &format!("`within_us` must be at most {most}")));
    }
    let check = request.check.ok_or_else(|| wrong("check", "`check` is missing"))?;
    let check = Request::read(&check)?;
    let plan = server.engine.plan_knowing([check.policy].into_iter()).await;
    let check = check.check(&plan, Verb::Check)?;
    Ok((Arc::new(PendingCheck::new(&check)), within))
}

/// Waits until it is admitted, or answers as soon as it is known that it cannot be in time.
pub(super) async fn wait(
    server: &Arc<Server>,
    guest: &Arc<Guest>,
    pending: &Arc<PendingCheck>,
    within: Duration,
) -> Result<Response<AnswerBody>, Status> {
    let waited = server.wait(Face::Grpc, guest, pending, within).await;
    let (reply, charged) = waited.map_err(|error| of_wait(&error))?;
    let plan = server.engine.plan();
    let check = pending.check(&plan).map_err(|error| of_store(&error))?;
    let answer = unary(framed(&decision::of_reply(&check, &reply)));
    Ok(answer.map(|body| AnswerBody::Other(Body::new(WaitedBody { body, charged }))))
}

/// The body of an answer. If the call ends before it is sent, what was charged is given back.
struct WaitedBody {
    body: AnswerBody,
    charged: Charged,
}

impl hyper::body::Body for WaitedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.charged.keep();
        self.body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
