//! HTTP: the JSON API, forward-auth, administration, health, metrics and the dashboard.

mod access;
mod admin;
mod authorize;
mod body;
mod check;
mod connection;
mod field_set;
mod history;
mod json;
mod keys;
mod live;
mod overrides;
mod pages;
mod plain;
mod policies;
mod problem;
mod query;
mod reference;
mod request;
mod reserve;
mod wait;

pub(crate) use self::connection::{serve, serve_only};
#[cfg(feature = "fuzzing")]
pub(crate) use self::plain::serve as serve_plain;
pub(crate) use self::reference::router as side_router;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::routing::{any, delete, get, post, put};
use http::{Method, StatusCode};
use waterclock::Verb;

pub(super) use self::problem::without_hosts;

use self::problem::Problem;
use crate::server::Server;

/// Every path there is. Handlers take a [`request::Call`], which has passed all guards, or [`request::Access`].
pub(crate) fn router(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/check", post(|call| check::apply(Verb::Check, call)))
        .route("/v1/peek", post(|call| check::apply(Verb::Peek, call)))
        .route("/v1/refund", post(|call| check::apply(Verb::Refund, call)))
        .route("/v1/reset", post(|call| check::apply(Verb::Reset, call)))
        .route("/v1/report", post(check::report))
        .route("/v1/wait", post(wait::wait))
        .route("/v1/reserve", post(reserve::reserve))
        .route("/v1/reservations/{id}/commit", post(reserve::commit))
        .route("/v1/reservations/{id}", delete(reserve::cancel))
        .route("/v1/authorize", get(authorize::authorize))
        .route("/v1/config", get(pages::config))
        .route("/v1/live", get(live::live))
        .route("/v1/history", get(history::history))
        .route("/v1/refused", get(history::refused))
        .route("/v1/access", get(access::access))
        .route("/v1/policies", get(admin::policies))
        .route(
            "/v1/policies/{policy}",
            get(admin::policy).put(policies::put).delete(policies::delete),
        )
        .route("/v1/keys", get(keys::usage))
        .route("/v1/policies/{policy}/keys", delete(keys::purge))
        .route("/v1/policies/{policy}/keys/{key}", get(admin::read).delete(admin::reset))
        .route("/v1/policies/{policy}/keys/{key}/grant", post(admin::grant))
        .route(
            "/v1/policies/{policy}/keys/{key}/override",
            put(overrides::set).get(overrides::read).delete(overrides::clear),
        )
        .route("/v1/policies/{policy}/overrides", get(overrides::list).post(overrides::load))
        .route("/healthz", get(pages::healthz))
        .route("/readyz", get(pages::readyz))
        .route("/metrics", get(pages::metrics))
        .route("/openapi.json", get(pages::openapi))
        .route("/waterclock.proto", get(pages::protocol))
        .merge(pages::dashboard())
        .fallback(any(unknown_path))
        .method_not_allowed_fallback(wrong_method)
        .with_state(server)
}

async fn unknown_path(request: Request) -> Problem {
    let path: String = request.uri().path().chars().take(100).collect();
    Problem::not_found(format!("there is nothing at {path}; see /openapi.json for all paths"))
}

async fn wrong_method(method: Method, request: Request) -> Problem {
    let path = request.uri().path();
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{path} does not support {method}"))
}
