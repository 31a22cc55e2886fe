//! HTTP: the JSON API, forward-auth, administration, health, metrics and the dashboard.

mod about;
mod admin;
mod authorize;
mod connection;
mod dashboard;
mod decide;
mod elsewhere;
mod guard;
mod live;
mod openapi;
mod problem;
mod query;
mod question;
mod report;
mod reserve;
mod rest;

pub(crate) use self::connection::serve;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, delete, get, post, put};
use http::{HeaderMap, Method, StatusCode};
use waterclock::Verb;
use waterclock_http::{Fields, StyledAnswer};

use self::guard::{body_of, open, room};
use self::problem::Problem;
use crate::access::Role;
use crate::engine::{ActivePolicy, Reply};
use crate::server::Server;

/// Who is at the other end of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

type Shared = State<Arc<Server>>;

/// Every path there is.
pub(crate) fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/check", post(check))
        .route("/v1/peek", post(peek))
        .route("/v1/refund", post(refund))
        .route("/v1/report", post(report))
        .route("/v1/reserve", post(reserve))
        .route("/v1/reservations/{id}/commit", post(reserve::commit))
        .route("/v1/reservations/{id}", delete(reserve::cancel))
        .route("/v1/authorize", get(authorize))
        .route("/v1/config", get(about::config))
        .route("/v1/live", get(live::live))
        .route("/v1/policies", get(admin::policies))
        .route("/v1/policies/{policy}", get(admin::policy))
        .route("/v1/policies/{policy}/keys/{key}", get(admin::read).delete(admin::reset))
        .route("/v1/policies/{policy}/keys/{key}/grant", post(admin::grant))
        .route(
            "/v1/policies/{policy}/keys/{key}/override",
            put(admin::make_exception).delete(admin::take_back_exception),
        )
        .route("/healthz", get(about::healthz))
        .route("/readyz", get(about::readyz))
        .route("/metrics", get(about::metrics))
        .route("/openapi.json", get(openapi::openapi))
        .merge(dashboard::routes())
        .fallback(any(nowhere))
        .method_not_allowed_fallback(not_like_this)
        .with_state(server)
}

async fn check(State(server): Shared, request: Request) -> Response {
    decided(&server, Verb::Check, request).await
}

async fn peek(State(server): Shared, request: Request) -> Response {
    decided(&server, Verb::Peek, request).await
}

async fn refund(State(server): Shared, request: Request) -> Response {
    decided(&server, Verb::Refund, request).await
}

async fn decided(server: &Server, verb: Verb, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let decide = async {
        open(server, &parts, Role::Check)?;
        let body = body_of(server, &parts.headers, body).await?;
        let _room = room(server)?;
        decide::decide(&server.engine, verb, &parts.headers, &body).await
    };
    decide.await.unwrap_or_else(IntoResponse::into_response)
}

async fn report(State(server): Shared, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let report = async {
        open(&server, &parts, Role::Check)?;
        let body = body_of(&server, &parts.headers, body).await?;
        let _room = room(&server)?;
        report::report(&server.engine, &parts.headers, &body).await
    };
    report.await.unwrap_or_else(IntoResponse::into_response)
}

async fn reserve(State(server): Shared, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let reserve = async {
        open(&server, &parts, Role::Check)?;
        let body = body_of(&server, &parts.headers, body).await?;
        let _room = room(&server)?;
        reserve::reserve(&server.engine, &parts.headers, &body).await
    };
    reserve.await.unwrap_or_else(IntoResponse::into_response)
}

async fn authorize(State(server): Shared, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let authorize = async {
        guard::open_to_proxies(&server, &parts, Role::Check)?;
        let _room = room(&server)?;
        let peer = guard::peer_of(&parts);
        let (uri, headers) = (&parts.uri, &parts.headers);
        let (client, is_trusted) = server.client(peer, headers);
        authorize::authorize(&server, client, is_trusted, uri, headers).await
    };
    authorize.await.unwrap_or_else(IntoResponse::into_response)
}

async fn nowhere(request: Request) -> Problem {
    let path: String = request.uri().path().chars().take(100).collect();
    Problem::not_found(format!("there is nothing at {path}; /openapi.json lists what there is"))
}

async fn not_like_this(method: Method, request: Request) -> Problem {
    let path = request.uri().path();
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{path} does not take {method}"))
}

/// Writes the header fields of each policy, in its own style.
fn told<'a>(
    served: impl Iterator<Item = &'a Arc<ActivePolicy>>,
    replies: &[Reply],
    headers: &mut HeaderMap,
) {
    let told: Vec<StyledAnswer<'_>> = served
        .zip(replies)
        .map(|(served, reply)| StyledAnswer {
            style: served.headers(),
            name: served.name(),
            policy: &reply.policy,
            answer: &reply.answer,
        })
        .collect();
    Fields::for_check(told).write_to(headers);
}
