//! What the server says about itself.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use super::Shared;
use super::decide::json;
use super::guard::open;
use crate::access::Role;
use crate::server::Phase;

/// The process is alive: nothing else is asked.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether new work should be sent here.
pub(super) async fn readyz(State(server): Shared) -> Response {
    let is_serving = *server.phase().borrow() == Phase::Serving;
    let body = json!({
        "ready": is_serving,
        "store": server.engine.store().name(),
        "degraded": server.engine.store().is_degraded(),
    });
    json(if is_serving { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &body)
}

/// For Prometheus.
pub(super) async fn metrics(State(server): Shared, parts: Parts) -> Response {
    if let Err(problem) = open(&server, &parts, Role::Read) {
        return problem.into_response();
    }
    let mut response = server.metrics_text().into_response();
    let text =
        HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}

/// What is in force, and what came of the last file that was offered.
pub(super) async fn config(State(server): Shared, parts: Parts) -> Response {
    if let Err(problem) = open(&server, &parts, Role::Read) {
        return problem.into_response();
    }
    json(StatusCode::OK, &server.reloads().said())
}
