//! Responses to requests that are refused.

#[cfg(feature = "grpc")]
mod grpc;

use std::fmt::{self, Write};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Response, StatusCode};
use waterclock::{StoreError, UnknownTier};

use crate::key::KeyError;
use crate::layer::{Charged, Checked};

/// Where the IETF's draft on rate limit header fields registers this kind of problem.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// Why a request is refused.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Reason<'a> {
    /// A limit refused it.
    Limited(&'a Checked),
    /// It has no key.
    Key(&'a KeyError),
    /// Its tier is not known, and the rule has no default tier.
    Tier(&'a UnknownTier),
    /// The store failed, and the policy does not admit requests without an answer.
    Store(&'a StoreError),
}

/// A request that is refused.
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

    /// Why it is refused.
    #[must_use]
    pub fn reason(&self) -> Reason<'a> {
        self.reason
    }

    /// 429 for a limit, 400 for a key that is missing or too long and for an unknown tier, 503 for a store that failed.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.reason {
            Reason::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
            Reason::Key(_) | Reason::Tier(_) => StatusCode::BAD_REQUEST,
            Reason::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// One sentence for the client. It names no host and no hidden policy.
    #[must_use]
    pub fn message(&self) -> String {
        match self.reason {
            Reason::Limited(checked) => match checked.retry_after() {
                Some(wait) => {
                    let seconds = wait.as_nanos().div_ceil(1_000_000_000).max(1);
                    format!("too many requests; retry in {seconds} s")
                }
                None => "too many requests".to_owned(),
            },
            Reason::Key(error) => error.to_string(),
            // The names of the other tiers may be none of the client's business.
            Reason::Tier(error) => format!("unknown tier {:?}", error.tier()),
            Reason::Store(error) => match error.failure() {
                Some(kind) => format!("the limits cannot be checked now ({})", kind.name()),
                None => "the limits cannot be checked".to_owned(),
            },
        }
    }

    /// The default response: a [problem](Self::problem), or a gRPC status if the request is gRPC and the
    /// feature `grpc` is on.
    #[must_use]
    pub fn response(&self) -> Response<Bytes> {
        #[cfg(feature = "grpc")]
        if self.is_grpc() {
            return self.grpc();
        }
        self.problem()
    }

    /// The response as `application/problem+json` (RFC 9457).
    #[must_use]
    pub fn problem(&self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(problem_json(self)));
        *response.status_mut() = self.status();
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        if let Reason::Store(_) = self.reason {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    /// The response as a gRPC status in header fields, without a body: `RESOURCE_EXHAUSTED` with the time
    /// to retry, `INVALID_ARGUMENT` or `UNAVAILABLE`.
    #[cfg(feature = "grpc")]
    #[must_use]
    pub fn grpc(&self) -> Response<Bytes> {
        grpc::response(self)
    }

    /// Whether the request is gRPC.
    #[must_use]
    pub fn is_grpc(&self) -> bool {
        let kind = self.request.headers.get(CONTENT_TYPE);
        kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
    }
}

fn problem_json(refusal: &Refusal<'_>) -> String {
    let (kind, title) = match refusal.reason {
        Reason::Limited(_) => (QUOTA_EXCEEDED, "The request exceeds a limit"),
        Reason::Key(_) | Reason::Tier(_) => ("about:blank", "Bad Request"),
        Reason::Store(_) => ("about:blank", "Service Unavailable"),
    };
    let (status, detail) = (refusal.status().as_u16(), refusal.message());
    let detail = JsonString(&detail);
    let mut body =
        format!(r#"{{"type":"{kind}","title":"{title}","status":{status},"detail":{detail}"#);
    if let Reason::Limited(checked) = refusal.reason {
        let mut separator = r#","violated-policies":["#;
        for name in checked.iter().filter(|charged| !charged.is_hidden()).flat_map(violated) {
            // Writing to a String cannot fail.
            let _ = write!(body, "{separator}{}", JsonString(&name));
            separator = ",";
        }
        if separator == "," {
            body.push(']');
        }
    }
    body.push('}');
    body
}

/// `policy.limit` of every limit that refused.
fn violated(charged: &Charged) -> impl Iterator<Item = String> {
    let refused = charged.answer.decision.refused_by();
    charged.policy.names(refused).map(|limit| format!("{}.{limit}", charged.name()))
}

/// A text as JSON. Four fields are all the JSON that this crate writes, so users need no JSON library for it.
struct JsonString<'a>(&'a str);

impl fmt::Display for JsonString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                '\0'..='\x1f' => write!(f, "\\u{:04x}", u32::from(character))?,
                _ => f.write_char(character)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::JsonString;

    #[test]
    fn strings_are_escaped() {
        assert_eq!(JsonString("a \"b\\ é\n").to_string(), r#""a \"b\\ é\u000a""#);
    }
}
