//! One call with a request of Envoy: its token, its message, its decision.

use std::borrow::Cow;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::poll;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame};
use prost::Message;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use waterclock::Clock as _;

use super::descriptors::{Failed, Outcome, decide};
use super::proto::{
    CHECK_RATE_LIMIT, Code, REPORT, RateLimitRequest, RateLimitResponse, SHOULD_RATE_LIMIT,
};
use super::request::{self, Descriptor, Hits, MAX_DESCRIPTORS, MAX_ENTRIES, MAX_MESSAGE};
use super::response::{refusal, response};
use super::size::Size;
use super::{contained, metadata};
use crate::access::{Attempt, Role};
use crate::buffers::{Hold, SMALL};
use crate::connections::Guest;
use crate::observe::Face;
use crate::otlp::Span;
use crate::server::Server;

/// A message follows a byte that says whether it is compressed, and four with its length.
const PREFIX: usize = 5;

/// What a client sends in a call: hyper's body, or bytes.
pub(crate) trait CallBody:
    hyper::body::Body<Data = Bytes, Error: Into<BoxError> + Send> + Unpin + Send + 'static
{
}

impl<B> CallBody for B where
    B: hyper::body::Body<Data = Bytes, Error: Into<BoxError> + Send> + Unpin + Send + 'static
{
}

type BoxError = Box<dyn Error + Send + Sync>;

/// What a call wants to know, or to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Decide, and charge as the rules say.
    ShouldRateLimit,
    /// Whether anything is left. Charges nothing.
    CheckRateLimit,
    /// What was used: charged whatever is left.
    Report,
}

impl Method {
    pub(super) fn of(path: &str) -> Option<Method> {
        match path {
            SHOULD_RATE_LIMIT => Some(Method::ShouldRateLimit),
            CHECK_RATE_LIMIT => Some(Method::CheckRateLimit),
            REPORT => Some(Method::Report),
            _ => None,
        }
    }

    /// The name of its span.
    fn name(self) -> &'static str {
        match self {
            Method::ShouldRateLimit => "ShouldRateLimit",
            Method::CheckRateLimit => "CheckRateLimit",
            Method::Report => "Report",
        }
    }

    fn adapt(self, descriptor: &mut Descriptor<'_>) {
        descriptor.hits = match (self, descriptor.hits) {
            (Method::ShouldRateLimit, hits) | (Method::Report, hits @ Hits::Refund(_)) => hits,
            (Method::CheckRateLimit, _) => Hits::Peek,
            (Method::Report, Hits::Charge(units) | Hits::Bill(units)) => Hits::Bill(units),
            (Method::Report, Hits::Peek) => Hits::Bill(0),
        };
    }
}

/// Why a call ends without a decision.
pub(super) enum End {
    /// The request is too large: refused, because proxies admit on errors.
    TooLarge(String),
    Failed(Status),
    /// A store has failed; its policies have counted that.
    Counted(Status),
}

impl From<Status> for End {
    fn from(status: Status) -> End {
        End::Failed(status)
    }
}

/// Answers a call.
pub(super) async fn answer(
    server: &Arc<Server>,
    request: Request<impl CallBody>,
    guest: &Guest,
) -> Response<AnswerBody> {
    let metrics = server.engine.metrics();
    let method = Method::of(request.uri().path()).unwrap_or(Method::ShouldRateLimit);
    let mut span = Span::begin(metrics, Face::Grpc, method.name(), request.headers());
    let mut undecided = Undecided { server, why: Some("the caller has canceled it".into()) };
    match decided(server, method, request, guest).await {
        Ok((response, is_refused)) => {
            undecided.why = None;
            let mut answer = unary(response);
            if let Some(span) = &mut span {
                span.set_outcome(if is_refused { "deny" } else { "allow" });
                span.write_to(answer.headers_mut());
            }
            answer
        }
        Err(End::TooLarge(why)) => {
            undecided.why = Some(why.into());
            unary(framed(&refusal(), &[], false))
        }
        Err(End::Failed(status)) => {
            undecided.why = Some(status.message().to_owned().into());
            status.into_http().map(AnswerBody::Other)
        }
        Err(End::Counted(status)) => {
            undecided.why = None;
            status.into_http().map(AnswerBody::Other)
        }
    }
}

/// Counts a call that ends without a decision, also where the caller cancels it.
struct Undecided<'s> {
    server: &'s Server,
    why: Option<Cow<'static, str>>,
}

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        if let Some(why) = &self.why {
            self.server.engine.count_undecided(Face::Grpc, why);
        }
    }
}

/// Its token is checked before the message is read, and what the message becomes is taken from the budget of receive
/// buffers before it is decoded.
async fn decided(
    server: &Arc<Server>,
    method: Method,
    request: Request<impl CallBody>,
    guest: &Guest,
) -> Result<(Bytes, bool), End> {
    let (head, body) = request.into_parts();
    let body = let_in(server, Role::Check, guest, &head.headers, body).await?;
    let mut hold = server.buffers().hold(Face::Grpc, guest.origin());
    let message = receive_in_time(server, body, &mut hold, MAX_MESSAGE).await?;
    let unreadable = || Status::invalid_argument("the message is not a RateLimitRequest");
    let size = Size::of(&message).ok_or_else(unreadable)?;
    let Size { descriptors, entries } = size;
    if descriptors > MAX_DESCRIPTORS || entries > MAX_ENTRIES {
        let found = format!("{descriptors} descriptors with {entries} entries");
        let most = format!("{MAX_DESCRIPTORS} with {MAX_ENTRIES}");
        return Err(End::TooLarge(format!("it has {found}, more than {most}; refused")));
    }
    take(server, &mut hold, message.len() + size.decoded())?;
    let request = RateLimitRequest::decode(message).map_err(|_| unreadable())?;
    decide_request(server, method, &request, |response, outcomes| {
        let is_refused = response.overall_code() == Code::OverLimit;
        (framed(&response, outcomes, server.reference().metadata), is_refused)
    })
    .await
}

/// Decides about a request that did not come by gRPC.
pub(crate) async fn decide_alone(
    server: &Server,
    request: &RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    let method = Method::ShouldRateLimit;
    let decided = decide_request(server, method, request, |response, _| response).await;
    decided.map_err(|end| match end {
        End::Failed(status) | End::Counted(status) => status,
        End::TooLarge(why) => Status::resource_exhausted(why),
    })
}

async fn decide_request<T>(
    server: &Server,
    method: Method,
    request: &RateLimitRequest,
    answer: impl FnOnce(RateLimitResponse, &[Outcome<'_>]) -> T,
) -> Result<T, End> {
    let _place = admit(server)?;
    // One plan for the whole request, so that a reload does not change it half way.
    let plan = Arc::clone(&server.engine.plan());
    let mut descriptors = request::read(request)?;
    let domain = &request.domain;
    if plan.pushed().is_awaited() && !plan.rules().knows(domain) {
        // The code of the reference service. Proxies admit or refuse then as they are told to.
        return Err(Status::unknown("no rate limit configuration has arrived yet").into());
    }
    descriptors.iter_mut().for_each(|descriptor| method.adapt(descriptor));
    let places = contained::take_apart(plan.rules(), domain, &mut descriptors);
    let outcomes = decide(server, &plan, domain, &descriptors).await;
    let outcomes = outcomes.map_err(|failed| match failed {
        Failed::Store(status) => End::Counted(status),
        Failed::TimedOut => End::Failed(Status::unavailable("the store did not answer in time")),
    })?;
    let now = server.engine.metrics().clock().now();
    let mut response = response(&outcomes, now, server.reference());
    contained::put_together(&mut response.statuses, &places);
    Ok(answer(response, &outcomes))
}

/// The body of a call whose token has the role.
pub(super) async fn let_in<B>(
    server: &Server,
    role: Role,
    guest: &Guest,
    headers: &HeaderMap,
    body: B,
) -> Result<B, Status> {
    let let_in = server.authorize((Face::Grpc, role), guest, headers, body).await;
    let_in.map_err(|attempt| match attempt {
        Attempt::Forbidden => {
            Status::permission_denied(format!("the token lacks the role `{}`", role.name()))
        }
        _ => Status::unauthenticated("send a known token as `authorization: Bearer …`"),
    })
}

/// A place for a call that is to be decided.
pub(super) fn admit(server: &Server) -> Result<OwnedSemaphorePermit, Status> {
    let overloaded = || Status::resource_exhausted("the server is overloaded; nothing was decided");
    server.admit(Face::Grpc).ok_or_else(overloaded)
}

/// Receives a message of at most so many bytes.
pub(super) async fn receive_in_time(
    server: &Server,
    body: impl CallBody,
    hold: &mut Hold,
    most: usize,
) -> Result<Bytes, End> {
    let mut received = std::pin::pin!(receive(server, body, hold, most));
    // Mostly the message came with the head, and no timer is needed.
    match poll!(received.as_mut()) {
        Poll::Ready(received) => received,
        Poll::Pending => {
            let late = |_| Status::deadline_exceeded("the request took too long to arrive");
            timeout(server.patience().head * 2, received).await.map_err(late)?
        }
    }
}

/// Receives a message, of which each piece comes out of the budget when it arrives.
async fn receive(
    server: &Server,
    mut body: impl CallBody,
    hold: &mut Hold,
    most: usize,
) -> Result<Bytes, End> {
    let mut received = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::from_error(error.into()))?;
        let Ok(piece) = frame.into_data() else { continue };
        take(server, hold, piece.len())?;
        received.extend_from_slice(&piece);
        if received.len().max(PREFIX + length(&received).unwrap_or(0)) > PREFIX + most {
            let why = format!("it is longer than {most} bytes; refused");
            return Err(End::TooLarge(why));
        }
    }
    let end = length(&received).map(|length| PREFIX + length);
    let Some(end) = end.filter(|end| *end <= received.len()) else {
        return Err(Status::invalid_argument("the message is incomplete").into());
    };
    if received[0] != 0 {
        return Err(Status::unimplemented("compressed messages are not supported").into());
    }
    Ok(received.freeze().slice(PREFIX..end))
}

/// The length that the prefix of a message announces.
fn length(received: &[u8]) -> Option<usize> {
    let bytes = received.get(1..PREFIX)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(bytes)).ok()
}

/// Where there is no room for a long message, it is refused: an error would admit it, and a client can make messages long.
pub(super) fn take(server: &Server, hold: &mut Hold, bytes: usize) -> Result<(), End> {
    let before = hold.bytes();
    if hold.grow(bytes, true) {
        return Ok(());
    }
    server.engine.metrics().count_receive_refused(Face::Grpc);
    if before + bytes > SMALL {
        let why = "there is no room for so long a message; refused";
        return Err(End::TooLarge(why.to_owned()));
    }
    let why = "the server is receiving too many long requests; nothing was decided";
    Err(Status::resource_exhausted(why).into())
}

/// A response with the metadata of these outcomes, and of their limits if asked for, as the protocol frames it.
fn framed(message: &RateLimitResponse, outcomes: &[Outcome<'_>], of_limits: bool) -> Bytes {
    frame(message, |framed| metadata::write(outcomes, of_limits, framed))
}

/// A message as the protocol frames it, with fields that are written after it.
pub(super) fn frame(message: &impl Message, more: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut framed = Vec::with_capacity(FRAME_ROOM);
    framed.extend([0; PREFIX]);
    // Writing to a Vec does not fail.
    _ = message.encode(&mut framed);
    more(&mut framed);
    let length = u32::try_from(framed.len() - PREFIX).unwrap_or(u32::MAX);
    framed[1..PREFIX].copy_from_slice(&length.to_be_bytes());
    framed.into()
}

/// Enough for the answer to one descriptor.
const FRAME_ROOM: usize = 512;

/// An answer with one message.
pub(super) fn unary(framed: Bytes) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::Message(Some(framed)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    answer
}

/// The body of an answer.
pub(super) enum AnswerBody {
    /// A framed message, then the status that it is all right. `None` once the message is sent.
    Message(Option<Bytes>),
    /// Anything else.
    Other(Body),
}

static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

impl AnswerBody {
    pub(super) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self {
            AnswerBody::Message(message) => Poll::Ready(Some(Ok(match message.take() {
                Some(message) => Frame::data(message),
                None => {
                    let ok = HeaderValue::from_static("0");
                    let trailers = HeaderMap::from_iter([(GRPC_STATUS.clone(), ok)]);
                    *self = AnswerBody::Other(Body::empty());
                    Frame::trailers(trailers)
                }
            }))),
            AnswerBody::Other(body) => Pin::new(body).poll_frame(context),
        }
    }

    /// Whether nothing is left.
    pub(super) fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Message(_) => false,
            AnswerBody::Other(body) => body.is_end_stream(),
        }
    }
}
