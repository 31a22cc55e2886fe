//! `waterclock.v1.RateLimiter`: what the JSON API does, in protobuf.
//!
//! Calls are received and bounded as those of Envoy's service are. A refusal is an answer, not an error: the caller of this
//! service asked us, and no proxy admits in its place.

mod check;
mod decision;
mod reserve;
mod status;
mod wait;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use prost::Message;
use tonic::Status;
use waterclock::Verb;

use self::check::MAX_CHECKS;
use super::call::{self, AnswerBody, CallBody, End, admit, frame, let_in, receive_in_time, unary};
use super::proto::rate_limiter::CheckRequest;
use super::size::each_field;
use crate::access::Role;
use crate::buffers::Hold;
use crate::connections::Guest;
use crate::observe::Face;
use crate::otlp::Span;
use crate::server::Server;

/// What the paths of all methods begin with.
const SERVICE: &str = "/waterclock.v1.RateLimiter/";
/// The longest message, in bytes: as long as the body of a request over HTTP.
const MAX_MESSAGE: usize = 64 * 1_024;
/// What a byte of a message becomes at most, beside the checks themselves: entries of maps and lists.
const DECODED: usize = 16;

/// The methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    One(Verb),
    CheckAll,
    Reserve,
    Commit,
    Cancel,
    Report,
    Wait,
    Watch,
}

impl Method {
    fn of(path: &str) -> Option<Method> {
        Some(match path.strip_prefix(SERVICE)? {
            "Check" => Method::One(Verb::Check),
            "Peek" => Method::One(Verb::Peek),
            "Refund" => Method::One(Verb::Refund),
            "CheckAll" => Method::CheckAll,
            "Reserve" => Method::Reserve,
            "Commit" => Method::Commit,
            "Cancel" => Method::Cancel,
            "Report" => Method::Report,
            "Wait" => Method::Wait,
            "Watch" => Method::Watch,
            _ => return None,
        })
    }

    /// The name of its span.
    fn name(self) -> &'static str {
        match self {
            Method::One(Verb::Peek) => "Peek",
            Method::One(Verb::Refund) => "Refund",
            Method::One(_) => "Check",
            Method::CheckAll => "CheckAll",
            Method::Reserve => "Reserve",
            Method::Commit => "Commit",
            Method::Cancel => "Cancel",
            Method::Report => "Report",
            Method::Wait => "Wait",
            Method::Watch => "Watch",
        }
    }

    fn role(self) -> Role {
        if self == Method::Watch { Role::Read } else { Role::Check }
    }

    /// Whether its first field is a list of checks.
    fn takes_several(self) -> bool {
        matches!(self, Method::CheckAll | Method::Reserve)
    }
}

/// Whether the path is one of this service.
pub(super) fn is_path(path: &str) -> bool {
    path.starts_with(SERVICE)
}

/// Answers a call.
pub(super) async fn answer(
    server: &Arc<Server>,
    request: Request<impl CallBody>,
    guest: &Arc<Guest>,
) -> Response<AnswerBody> {
    let name = Method::of(request.uri().path()).map_or("unknown", Method::name);
    let mut span = Span::begin(server.engine.metrics(), Face::Grpc, name, request.headers());
    let mut answer = decided(server, request, guest).await;
    if let Some(span) = &mut span {
        span.set_outcome(if answer.is_ok() { "answered" } else { "error" });
        _ = answer.as_mut().map(|answer| span.write_to(answer.headers_mut()));
    }
    answer.unwrap_or_else(|end| {
        let status = match end {
            End::TooLarge(_) => {
                Status::out_of_range(format!("a message may have {MAX_MESSAGE} bytes"))
            }
            End::Failed(status) | End::Counted(status) => status,
        };
        status.into_http().map(AnswerBody::Other)
    })
}

async fn decided(
    server: &Arc<Server>,
    request: Request<impl CallBody>,
    guest: &Arc<Guest>,
) -> Result<Response<AnswerBody>, End> {
    let (head, body) = request.into_parts();
    let unknown = || Status::unimplemented("waterclock.v1.RateLimiter has no such method");
    let method = Method::of(head.uri.path()).ok_or_else(unknown)?;
    let body = let_in(server, method.role(), guest, &head.headers, body).await?;
    let mut hold = server.buffers().hold(Face::Grpc, guest.origin());
    let message = receive_in_time(server, body, &mut hold, MAX_MESSAGE).await?;
    bound(server, &mut hold, method, &message)?;
    let place = admit(server)?;
    Ok(match method {
        Method::One(verb) => unary(framed(&check::one(server, verb, read(message)?).await?)),
        Method::CheckAll => unary(framed(&check::all(server, read(message)?).await?)),
        Method::Report => unary(framed(&check::report(server, read(message)?).await?)),
        Method::Reserve => unary(framed(&reserve::reserve(server, read(message)?).await?)),
        Method::Commit => unary(framed(&reserve::commit(server, read(message)?).await?)),
        Method::Cancel => unary(framed(&reserve::cancel(server, read(message)?).await?)),
        Method::Wait => {
            let (pending, within) = wait::pending(server, read(message)?).await?;
            // Neither a place among requests nor the message is held while it waits.
            drop((place, hold));
            wait::wait(server, guest, &pending, within).await?
        }
        Method::Watch => {
            drop((place, hold));
            watch::watch(server, guest, &head.headers, read(message)?)?
        }
    })
}

/// Takes what the message becomes from the budget of receive buffers, before it is decoded.
fn bound(server: &Server, hold: &mut Hold, method: Method, message: &[u8]) -> Result<(), End> {
    let mut checks = 1;
    if method.takes_several() {
        const CHECKS: u32 = 1;
        checks = 0;
        let count = |number, _| {
            checks += usize::from(number == CHECKS);
            Some(())
        };
        each_field(message, count).ok_or_else(unreadable)?;
        if checks > MAX_CHECKS {
            let why = format!("`checks` must hold at most {MAX_CHECKS} checks; found {checks}");
            return Err(Status::invalid_argument(why).into());
        }
    }
    call::take(server, hold, 2 * checks * size_of::<CheckRequest>() + DECODED * message.len())
}

fn read<M: Message + Default>(message: Bytes) -> Result<M, Status> {
    M::decode(message).map_err(|_| unreadable())
}

fn unreadable() -> Status {
    Status::invalid_argument("the message is not the one that this method takes")
}

fn framed(message: &impl Message) -> Bytes {
    frame(message, |_| ())
}
