//! What a request must get past before anybody looks at what it asks.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::Peer;
use super::problem::Problem;
use crate::access::{Attempt, Role};
use crate::observe::Face;
use crate::server::Server;

/// The longest body, in bytes.
const MOST_BYTES: usize = 64 * 1_024;
/// How long a body may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Lets a request in, if its token opens the role and there is room. Keep what it returns until the
/// request is answered.
pub(super) fn open<'s>(
    server: &'s Server,
    parts: &Parts,
    role: Role,
) -> Result<SemaphorePermit<'s>, Problem> {
    let room = server.admit(Face::Http).ok_or_else(|| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server is overloaded").retry_after(1)
    })?;
    let token = bearer(&parts.headers);
    match server.attempt(Face::Http, peer_of(parts), token, role) {
        Attempt::Granted => Ok(room),
        Attempt::Unknown => {
            let detail = match token {
                Some(_) => "the token is not known".to_owned(),
                None => format!(
                    "this needs a token with the role `{}`; send it as `Authorization: Bearer …`",
                    role.name()
                ),
            };
            Err(Problem::new(StatusCode::UNAUTHORIZED, detail))
        }
        Attempt::Forbidden => {
            let detail = format!("the token lacks the role `{}`", role.name());
            Err(Problem::new(StatusCode::FORBIDDEN, detail))
        }
        Attempt::Exhausted(wait) => {
            let detail = "too many wrong tokens came from this address";
            let seconds = wait.as_secs() + 1;
            Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).retry_after(seconds))
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The acceptor puts it there.
pub(super) fn peer_of(parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<Peer>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(peer)| peer.ip())
}

/// The whole body, within its limits.
pub(super) async fn body_of(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let too_large = || {
        let detail = format!("the body must be at most {MOST_BYTES} bytes long");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced
        .and_then(|length| length.parse().ok())
        .is_some_and(|length: usize| length > MOST_BYTES)
    {
        return Err(too_large());
    }
    let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body took too long");
    let read = timeout(PATIENCE, to_bytes(body, MOST_BYTES)).await.map_err(late)?;
    read.map_err(|error| {
        let is_length = std::error::Error::source(&error)
            .is_some_and(|source| source.is::<http_body_util::LengthLimitError>());
        if is_length { too_large() } else { Problem::bad("body", "the body broke off") }
    })
}
