//! What a request must get past before anybody looks at what it asks.

use std::net::{IpAddr, Ipv4Addr};
use std::task::Poll;

use axum::body::{Body, Bytes, to_bytes};
use futures_util::poll;
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::Peer;
use super::elsewhere::no_other_pages;
use super::problem::Problem;
use crate::access::{Attempt, Role, bearer};
use crate::observe::Face;
use crate::server::Server;

/// The longest body, in bytes.
const MOST_BYTES: usize = 64 * 1_024;

/// Room to decide about one request. Keep it until the request is answered.
///
/// It is taken when the whole request has come: whoever sends slowly keeps nobody else waiting.
pub(super) fn room(server: &Server) -> Result<SemaphorePermit<'_>, Problem> {
    server.admit(Face::Http).ok_or_else(|| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server is overloaded").retry_after(1)
    })
}

/// Lets a request in, if its token opens the role; where none is needed, if it comes from no other page.
pub(super) fn open(server: &Server, parts: &Parts, role: Role) -> Result<(), Problem> {
    // A page from elsewhere has no token.
    if server.is_open() {
        no_other_pages(parts, role)?;
    }
    open_to_proxies(server, parts, role)
}

/// The same for what proxies ask: they pass on what a browser says about a page of their own.
pub(super) fn open_to_proxies(server: &Server, parts: &Parts, role: Role) -> Result<(), Problem> {
    let token = token_of(&parts.headers);
    match server.attempt(Face::Http, peer_of(parts), token, role) {
        Attempt::Granted => Ok(()),
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

pub(super) fn token_of(headers: &HeaderMap) -> Option<&str> {
    bearer(headers.get(header::AUTHORIZATION)?.to_str().ok()?)
}

/// The acceptor puts it there.
pub(super) fn peer_of(parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<Peer>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(peer)| peer.ip())
}

/// The whole body, within its limits.
pub(super) async fn body_of(
    server: &Server,
    headers: &HeaderMap,
    body: Body,
) -> Result<Bytes, Problem> {
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
    let mut read = std::pin::pin!(to_bytes(body, MOST_BYTES));
    // Mostly it came with the head, and then nobody needs a timer.
    let read = match poll!(read.as_mut()) {
        Poll::Ready(read) => read,
        Poll::Pending => timeout(server.patience().body, read).await.map_err(late)?,
    };
    read.map_err(|error| {
        let is_length = std::error::Error::source(&error)
            .is_some_and(|source| source.is::<http_body_util::LengthLimitError>());
        if is_length { too_large() } else { Problem::bad("body", "the body broke off") }
    })
}
