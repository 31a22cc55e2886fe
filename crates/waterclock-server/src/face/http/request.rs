//! What a request must pass before its handler runs: the browser check, its token, its body, a free place.

use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Poll;

use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use bytes::BytesMut;
use futures_util::poll;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode, Version, header};
use http_body_util::BodyExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::problem::Problem;
use crate::access::{Attempt, Role, bearer_of};
use crate::buffers::Hold;
use crate::connections::Guest;
use crate::observe::Face;
use crate::pace::Pace;
use crate::server::Server;

/// The longest body, in bytes.
const MAX_BODY: usize = 64 * 1_024;
/// The longest list of overrides, in bytes: what one address can send at once in any case.
pub(super) const MAX_LIST: usize = 1_024 * 1_024;

/// What a handler needs of its caller.
pub(super) trait Needs: Send + Sync + 'static {
    /// The role of the token.
    const ROLE: Role;
    /// Whether the caller is a proxy, which passes on what browsers say about its own pages.
    const IS_PROXY: bool = false;
    /// The longest body, in bytes.
    const MAX_BODY: usize = MAX_BODY;
}

/// May check.
pub(super) struct Checks;
/// May check on behalf of a browser.
pub(super) struct Proxies;
/// May read.
pub(super) struct Reads;
/// May change overrides and reset keys.
pub(super) struct Administers;
/// May change many overrides at once.
pub(super) struct Loads;

impl Needs for Checks {
    const ROLE: Role = Role::Check;
}

impl Needs for Proxies {
    const ROLE: Role = Role::Check;
    const IS_PROXY: bool = true;
}

impl Needs for Reads {
    const ROLE: Role = Role::Read;
}

impl Needs for Administers {
    const ROLE: Role = Role::Admin;
}

impl Needs for Loads {
    const ROLE: Role = Role::Admin;
    const MAX_BODY: usize = MAX_LIST;
}

/// A request that was let in, with its whole body and one of the places for requests being decided.
///
/// The place is taken when the whole request is here, so that slow senders hold none.
pub(super) struct Call<N> {
    pub(super) server: Arc<Server>,
    pub(super) guest: Arc<Guest>,
    pub(super) parts: Parts,
    /// Empty unless the method is POST or PUT.
    pub(super) body: Bytes,
    _place: OwnedSemaphorePermit,
    _body: Hold,
    _needs: PhantomData<N>,
}

/// What a handler reads of a request that was let in, however that was parsed.
#[derive(Clone, Copy)]
pub(super) struct Question<'r> {
    pub(super) headers: &'r HeaderMap,
    /// The part of the URL after the question mark.
    pub(super) query: Option<&'r str>,
    pub(super) body: &'r [u8],
    pub(super) peer: IpAddr,
}

impl<N: Needs> FromRequest<Arc<Server>> for Call<N> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Arc<Server>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let guest = Arc::clone(guest_of(&parts)?);
        let body = authorize::<N, _>(server, &guest, Head::of(&parts), body).await?;
        let mut hold = server.buffers().hold(Face::Http, guest.origin());
        let body = match parts.method {
            Method::POST | Method::PUT => {
                read_body(server, N::MAX_BODY, &parts.headers, body, &mut hold).await?
            }
            _ => Bytes::new(),
        };
        let place = admit::<N>(server)?;
        let server = Arc::clone(server);
        Ok(Call { server, guest, parts, body, _place: place, _body: hold, _needs: PhantomData })
    }
}

impl<N> Call<N> {
    pub(super) fn question(&self) -> Question<'_> {
        Question {
            headers: &self.parts.headers,
            query: self.parts.uri.query(),
            body: &self.body,
            peer: self.guest.peer.ip(),
        }
    }

    /// What is left of a request that waits: its place among requests is free again, and so are the bytes of its body.
    pub(super) fn into_waiting(self) -> (Arc<Server>, Arc<Guest>, Parts) {
        (self.server, self.guest, self.parts)
    }
}

/// A place among the requests that are being decided.
pub(super) fn admit<N: Needs>(server: &Server) -> Result<OwnedSemaphorePermit, Problem> {
    let place = match N::ROLE {
        Role::Admin => server.admit_administrator(Face::Http),
        Role::Check | Role::Read => server.admit(Face::Http),
    };
    place.ok_or_else(|| {
        let detail = "the server is overloaded";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(1)
    })
}

/// The values in a path. Those that cannot be read are an error for callers that have passed the guards.
pub(super) type PathOf<T> = Result<Path<T>, PathRejection>;

/// A request whose token was checked and nothing else: it is answered under overload, too.
pub(super) struct Access<N> {
    pub(super) server: Arc<Server>,
    _needs: PhantomData<N>,
}

impl<N: Needs> FromRequestParts<Arc<Server>> for Access<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Arc<Server>) -> Result<Self, Problem> {
        authorize::<N, _>(server, guest_of(parts)?, Head::of(parts), ()).await?;
        Ok(Access { server: Arc::clone(server), _needs: PhantomData })
    }
}

/// Whether a request names one host. A proxy may have read the other one.
pub(super) fn addressed<B>(request: &http::Request<B>) -> Result<(), Problem> {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    // HTTP/1.0 knows no `Host`, and HTTP/2 has another place for it.
    if hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11) {
        let detail = "a request must have one `Host`";
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    Ok(())
}

/// The head of a request, as far as it decides whether the request is let in.
#[derive(Clone, Copy)]
pub(super) struct Head<'r> {
    pub(super) headers: &'r HeaderMap,
    /// The host, where HTTP/2 has it.
    pub(super) authority: Option<&'r Authority>,
}

impl<'r> Head<'r> {
    fn of(parts: &'r Parts) -> Head<'r> {
        Head { headers: &parts.headers, authority: parts.uri.authority() }
    }
}

/// Lets a request in, and gives back its body, which was not read yet.
pub(super) async fn authorize<N: Needs, B>(
    server: &Server,
    guest: &Guest,
    head: Head<'_>,
    body: B,
) -> Result<B, Problem> {
    // A page of another site has no token.
    if server.is_open() && !N::IS_PROXY {
        reject_other_sites(head, guest.peer.ip(), N::ROLE)?;
    }
    let headers = head.headers;
    let let_in = server.authorize((Face::Http, N::ROLE), guest, headers, body).await;
    let_in.map_err(|attempt| not_let_in(attempt, N::ROLE, headers))
}

fn not_let_in(attempt: Attempt, role: Role, headers: &HeaderMap) -> Problem {
    let role = role.name();
    let (status, detail) = match attempt {
        Attempt::Forbidden => (StatusCode::FORBIDDEN, format!("the token lacks the role `{role}`")),
        _ if bearer_of(headers).is_some() => {
            (StatusCode::UNAUTHORIZED, "the token is not known".to_owned())
        }
        _ => {
            let send = "send it as `Authorization: Bearer …`";
            let detail = format!("this needs a token with the role `{role}`; {send}");
            (StatusCode::UNAUTHORIZED, detail)
        }
    };
    Problem::new(status, detail)
}

/// Lets in a request with a known token, whatever its roles; and one without a token where reading needs none.
pub(super) async fn let_in_any(server: &Server, parts: &Parts) -> Result<(), Problem> {
    let (guest, head) = (guest_of(parts)?, Head::of(parts));
    let token = bearer_of(head.headers);
    if server.is_open() {
        reject_other_sites(head, guest.peer.ip(), Role::Read)?;
        if token.is_none() {
            return Ok(());
        }
    }
    if server.revalidate(token, Role::Admin) != Attempt::Unknown {
        guest.confirm();
        return Ok(());
    }
    // Counts the guess, and delays the answer to one of many.
    _ = server.authorize((Face::Http, Role::Admin), guest, head.headers, ()).await;
    Err(not_let_in(Attempt::Unknown, Role::Read, head.headers))
}

/// Whose connection a request came over; the connection puts it into every request.
fn guest_of(parts: &Parts) -> Result<&Arc<Guest>, Problem> {
    let pace: Option<&Arc<Pace>> = parts.extensions.get();
    pace.map(|pace| pace.guest()).ok_or_else(|| {
        let detail = "the request came over no connection";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    })
}

/// Reads a body whole, within some time.
async fn read_body(
    server: &Server,
    most: usize,
    headers: &HeaderMap,
    body: Body,
    hold: &mut Hold,
) -> Result<Bytes, Problem> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length > most) {
        return Err(too_large(most));
    }
    let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body took too long");
    let mut read = std::pin::pin!(collect(server, most, body, hold));
    // Mostly the body came with the head, and no timer is needed.
    match poll!(read.as_mut()) {
        Poll::Ready(read) => read,
        Poll::Pending => timeout(server.patience().body, read).await.map_err(late)?,
    }
}

fn too_large(most: usize) -> Problem {
    let detail = format!("the body must be at most {most} bytes long");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
}

/// Puts the pieces of a body together. Each is taken from the budget when it arrives, whatever length is announced.
async fn collect(
    server: &Server,
    most: usize,
    mut body: Body,
    hold: &mut Hold,
) -> Result<Bytes, Problem> {
    let mut whole = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::bad("body", "the body is incomplete"))?;
        let Ok(piece) = frame.into_data() else { continue };
        if whole.len() + joined.len() + piece.len() > most {
            return Err(too_large(most));
        }
        take(server, hold, piece.len())?;
        // Mostly there is one piece, which is not copied.
        if whole.is_empty() && joined.is_empty() {
            whole = piece;
        } else {
            joined.extend_from_slice(&whole);
            joined.extend_from_slice(&piece);
            whole = Bytes::new();
        }
    }
    Ok(if joined.is_empty() { whole } else { joined.freeze() })
}

/// Takes so many bytes of a body from the budget.
pub(super) fn take(server: &Server, hold: &mut Hold, bytes: usize) -> Result<(), Problem> {
    if hold.grow(bytes, true) {
        return Ok(());
    }
    server.engine.metrics().count_receive_refused(Face::Http);
    let detail = "the server is receiving too many long requests";
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(1))
}

/// Refuses requests that a browser sends for another site than the dashboard.
///
/// Without tokens, everything that reaches the listener may ask, and a browser on the same machine reaches it for
/// every page it shows. A page of another site can send requests without reading the answers; with DNS rebinding (its
/// name suddenly resolves to this machine) it can read them as well. Browsers send enough header fields to tell both
/// from the dashboard; proxies and programs send none of these.
fn reject_other_sites(head: Head<'_>, peer: IpAddr, role: Role) -> Result<(), Problem> {
    let headers = head.headers;
    if headers.is_empty() {
        return Ok(());
    }
    let other_site = || {
        let detail = "pages of other sites are refused unless tokens are configured";
        Err(Problem::new(StatusCode::FORBIDDEN, detail))
    };
    if let Some(site) = headers.get("sec-fetch-site") {
        // Sent over TLS and on the loopback only, where no name can be rebound.
        return if site == "same-origin" || site == "none" { Ok(()) } else { other_site() };
    }
    let host = host_of(head);
    let is_browser = match headers.get(header::ORIGIN) {
        Some(origin) => {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            if !origin.is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host)) {
                return other_site();
            }
            true
        }
        // A rebound page that reads sends no origin, but every browser sends its languages and programs do not.
        None => role == Role::Read && headers.contains_key(header::ACCEPT_LANGUAGE),
    };
    if is_browser && peer.is_loopback() && !is_loopback(host) {
        let detail = "a browser must use `localhost` or a loopback address for this machine, unless \
            tokens are configured";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    Ok(())
}

/// The host with its port, if there is one.
fn host_of(head: Head<'_>) -> &str {
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host.or_else(|| head.authority.map(Authority::as_str)).unwrap_or_default()
}

fn is_loopback(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let labels = name.strip_suffix('.').unwrap_or(name);
    let last = labels.rsplit('.').next().unwrap_or_default();
    let address = name.parse::<IpAddr>();
    last.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine() {
        for host in [
            "localhost",
            "LocalHost:8080",
            "a.localhost:1",
            "localhost.",
            "127.0.0.1",
            "127.8.9.1:80",
            "[::1]:8080",
            "[::1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "notlocalhost",
            "10.0.0.1:80",
            "0.0.0.0:8080",
            "[2001:db8::1]:80",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
