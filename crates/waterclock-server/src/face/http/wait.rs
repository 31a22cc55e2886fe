//! `/v1/wait`: a check that is answered when it is admitted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use hyper::body::{Frame, SizeHint};
use waterclock::Verb;
use waterclock_config::Micros;

use super::body::{Charges, CheckBody, Options, Verbs};
use super::check::{Decisions, refusal, to_checks, write_headers};
use super::field_set::FieldSet;
use super::json;
use super::problem::{Problem, written};
use super::request::{Call, Checks};
use crate::connections::Guest;
use crate::engine::PendingCheck;
use crate::observe::Face;
use crate::otlp::{Span, traced};
use crate::server::Server;
use crate::waits::{Charged, MAX_WITHIN, WaitError};

/// Waits until the check of a body is admitted, or answers at once that it cannot be in time.
pub(super) async fn wait(call: Call<Checks>) -> Result<Response, Problem> {
    let (pending, within) = read(&call).await?;
    // Neither a place among requests nor the body is held while it waits.
    let (server, guest, parts) = call.into_waiting();
    let span = Span::begin(server.engine.metrics(), Face::Http, "wait", &parts.headers);
    traced(span, wait_untraced(&server, &guest, &parts.headers, (&pending, within))).await
}

async fn wait_untraced(
    server: &Arc<Server>,
    guest: &Arc<Guest>,
    headers: &HeaderMap,
    (pending, within): (&Arc<PendingCheck>, Duration),
) -> Result<Response, Problem> {
    let (reply, charged) = server.wait(Face::Http, guest, pending, within).await?;
    let plan = server.engine.plan();
    let (checks, replies) = ([pending.check(&plan)?], [reply]);
    let is_admitted = replies.iter().all(|reply| reply.answer.decision.is_allowed());
    let body = Decisions::new(&checks, &replies, is_admitted, true);
    let mut response = match is_admitted {
        true => written(StatusCode::OK, json::write(&body, FieldSet::ALL, 1)),
        false => refusal(headers, &checks, &replies, &body, FieldSet::ALL),
    };
    write_headers(&checks, &replies, response.headers_mut());
    Ok(response.map(|body| Body::new(AnswerBody { body: body.into(), charged })))
}

/// The body of an answer. If the connection ends before it is sent, what was charged is given back.
struct AnswerBody {
    body: Body,
    charged: Charged,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.charged.keep();
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn read(call: &Call<Checks>) -> Result<(Arc<PendingCheck>, Duration), Problem> {
    let CheckBody { charges, options } = CheckBody::read(&call.body, Verbs::Wait)?;
    if let Charges::Several { .. } = charges {
        let detail = "a wait is for one key; send `policy` and `key` instead of `checks`";
        return Err(Problem::bad("checks", detail));
    }
    let within = checked_within(&options)?;
    let plan = call.server.engine.plan_knowing(charges.policies()).await;
    let (checks, _) = to_checks(&plan, Verb::Check, &charges)?;
    let check = checks.first().ok_or_else(|| Problem::bad("policy", "`policy` is missing"))?;
    Ok((Arc::new(PendingCheck::new(check)), within))
}

fn checked_within(options: &Options<'_>) -> Result<Duration, Problem> {
    let wrong = |detail: String| Problem::bad("within", detail);
    let text = options.within.as_ref();
    let text =
        text.ok_or_else(|| wrong("`within` is missing; send a duration, such as \"5s\"".into()))?;
    let within =
        Micros::parse_or_zero(&text.0).map_err(|half| wrong(format!("`within` {half}")))?;
    match within.duration() {
        within if within <= MAX_WITHIN => Ok(within),
        _ => Err(wrong(format!("`within` must be at most \"{}s\"", MAX_WITHIN.as_secs()))),
    }
}

impl From<WaitError> for Problem {
    fn from(error: WaitError) -> Problem {
        let unavailable =
            |detail| Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(1);
        match error {
            WaitError::NoRoom => unavailable("too many callers wait already"),
            WaitError::Stopping => unavailable("the server is stopping"),
            WaitError::Store(error) => error.into(),
        }
    }
}
