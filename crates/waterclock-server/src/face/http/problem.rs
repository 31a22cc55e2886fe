//! Errors as `application/problem+json`, and other answers as JSON.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::{Map, Value, json as value};
use waterclock::store::Unfit;
use waterclock::{CostError, Failure, PolicyError, StoreError, UnknownTier};
use waterclock_config::BadField;

use crate::engine::{BadKey, UnknownPolicy};
use crate::face::charge::WrongCharge;

pub(super) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An error: a status and one sentence.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    field: Option<String>,
    failure: Option<Failure>,
    retry_after: Option<u64>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into(), field: None, failure: None, retry_after: None }
    }

    /// A field of the request is wrong; the detail says what would be right.
    pub(super) fn bad(field: impl Into<String>, detail: impl Into<String>) -> Problem {
        Problem { field: Some(field.into()), ..Problem::new(StatusCode::BAD_REQUEST, detail) }
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    /// One sentence.
    pub(super) fn into_detail(self) -> String {
        self.detail
    }

    /// The same, about one of several checks.
    pub(super) fn in_check(self, at: usize) -> Problem {
        let field = self.field.map(|field| format!("checks[{at}].{field}"));
        Problem { field, detail: format!("checks[{at}]: {}", self.detail), ..self }
    }

    /// The same, with a likely reason.
    pub(super) fn because(self, reason: &str) -> Problem {
        Problem { detail: format!("{}; {reason}", self.detail), ..self }
    }

    pub(super) fn retry_after(self, seconds: u64) -> Problem {
        Problem { retry_after: Some(seconds.max(1)), ..self }
    }
}

impl From<BadKey> for Problem {
    fn from(bad: BadKey) -> Problem {
        Problem::bad(bad.field, bad.reason)
    }
}

impl From<PathRejection> for Problem {
    fn from(_: PathRejection) -> Problem {
        Problem::bad("path", "the path is not UTF-8 once it is decoded")
    }
}

impl From<BadField> for Problem {
    fn from(bad: BadField) -> Problem {
        Problem::bad(bad.field, bad.reason)
    }
}

impl From<WrongCharge> for Problem {
    fn from(wrong: WrongCharge) -> Problem {
        match wrong {
            WrongCharge::UnknownPolicy(unknown) => unknown.into(),
            WrongCharge::Field { field, reason } => Problem::bad(field, reason),
        }
    }
}

impl From<CostError> for Problem {
    fn from(error: CostError) -> Problem {
        WrongCharge::from(error).into()
    }
}

impl From<UnknownTier> for Problem {
    fn from(unknown: UnknownTier) -> Problem {
        WrongCharge::from(unknown).into()
    }
}

impl From<UnknownPolicy> for Problem {
    fn from(unknown: UnknownPolicy) -> Problem {
        Problem::not_found(unknown.to_string())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        match &error {
            StoreError::UnknownPolicy(_) | StoreError::UnknownReservation(_) => {
                Problem::not_found(error.to_string())
            }
            StoreError::Failed { kind, .. } | StoreError::Denied { kind, .. } => {
                let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, without_hosts(&error));
                // Clients see by it that this server is healthy and that the policy refuses while the store fails.
                Problem { failure: Some(*kind), ..problem.retry_after(1) }
            }
            StoreError::KeptFull(_) => {
                Problem::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string())
            }
            StoreError::BadCost(_) => Problem::bad("cost", error.to_string()),
            StoreError::Unfit(Unfit::Policy(PolicyError::NotScalable { .. })) => {
                Problem::bad("factor", error.to_string())
            }
            _ => Problem::bad("policy", error.to_string()),
        }
    }
}

/// A failure for clients, without its reason, which may name hosts. Where there is no room, the reason names the bound.
pub(in crate::face) fn without_hosts(error: &StoreError) -> String {
    match error.failure() {
        Some(Failure::Overloaded) | None => error.to_string(),
        Some(kind) => format!("the store failed ({})", kind.name()),
    }
}

impl Problem {
    /// The response, with its whole body.
    pub(super) fn into_answer(self) -> http::Response<Bytes> {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let mut body = Map::from_iter([
            ("type".to_owned(), value!("about:blank")),
            ("title".to_owned(), value!(title)),
            ("status".to_owned(), value!(self.status.as_u16())),
            ("detail".to_owned(), value!(self.detail)),
        ]);
        if let Some(field) = self.field {
            body.insert("field".to_owned(), value!(field));
        }
        if let Some(failure) = self.failure {
            body.insert("failure".to_owned(), value!(failure.name()));
        }
        let mut response = http::Response::new(Bytes::from(Value::Object(body).to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.into_answer().map(Body::from)
    }
}

pub(super) fn json<T: Serialize>(status: StatusCode, body: &T) -> Response {
    written(status, serde_json::to_vec(body).unwrap_or_default()).map(Body::from)
}

/// A response whose body is JSON already.
pub(super) fn written(status: StatusCode, body: Vec<u8>) -> http::Response<Bytes> {
    let mut response = http::Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
