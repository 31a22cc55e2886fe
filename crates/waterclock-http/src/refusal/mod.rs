//! What a client hears that is turned away.

mod grpc;
mod problem;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Response, StatusCode};
use waterclock::StoreError;

use crate::key::KeyError;
use crate::layer::Checked;

/// Why a request is turned away.
#[derive(Clone, Copy, Debug)]
pub enum Reason<'a> {
    /// A limit.
    Limited(&'a Checked),
    /// Nobody can tell whose budget it would be.
    Key(&'a KeyError),
    /// The store has no answer, and the policy does not let requests pass without.
    Store(&'a StoreError),
}

/// A request that is turned away.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    request: &'a Parts,
    reason: Reason<'a>,
}

impl<'a> Refusal<'a> {
    pub(crate) fn new(request: &'a Parts, reason: Reason<'a>) -> Self {
        Self { request, reason }
    }

    /// The head of the request.
    #[must_use]
    pub fn request(&self) -> &'a Parts {
        self.request
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> Reason<'a> {
        self.reason
    }

    /// 429 for a limit, 400 for a key that is missing or too long, 503 for a store without an answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.reason {
            Reason::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
            Reason::Key(_) => StatusCode::BAD_REQUEST,
            Reason::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// One sentence for the client. It names no host, and no policy that clients do not hear of.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self.reason {
            Reason::Limited(checked) => match checked.retry_after() {
                Some(wait) => {
                    let seconds = wait.as_nanos().div_ceil(1_000_000_000).max(1);
                    format!("too many requests; retry in {seconds} s")
                }
                None => "too many requests".to_owned(),
            },
            Reason::Key(error) => error.to_string(),
            Reason::Store(error) => match error.failure() {
                Some(kind) => format!("the limits cannot be checked now ({})", kind.name()),
                None => "the limits cannot be checked".to_owned(),
            },
        }
    }

    /// The answer, unless a layer is told to give another: to gRPC a status, to everybody else
    /// [a problem](Self::problem).
    #[must_use]
    pub fn response(&self) -> Response<Bytes> {
        if self.is_grpc() { self.grpc() } else { self.problem() }
    }

    /// As `application/problem+json` (RFC 9457).
    #[must_use]
    pub fn problem(&self) -> Response<Bytes> {
        let body = problem::body(self);
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = self.status();
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        if let Reason::Store(_) = self.reason {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    /// As gRPC has it: `RESOURCE_EXHAUSTED` with when to retry, `INVALID_ARGUMENT` or `UNAVAILABLE`, in the
    /// header fields of a response without a body.
    #[must_use]
    pub fn grpc(&self) -> Response<Bytes> {
        grpc::response(self)
    }

    /// Whether the request is one of gRPC.
    #[must_use]
    pub fn is_grpc(&self) -> bool {
        let kind = self.request.headers.get(CONTENT_TYPE);
        kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
    }
}
