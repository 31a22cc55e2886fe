//! Health, metrics, the configuration in force, the API's description and the dashboard.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::problem::json;
use super::request::{Access, Reads};
use crate::server::{Phase, Server};

/// The process is alive.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether load balancers should send requests here.
pub(super) async fn readyz(State(server): State<Arc<Server>>) -> Response {
    let is_serving = *server.phase().borrow() == Phase::Serving;
    let body = json!({
        "ready": is_serving,
        "store": server.engine.store_name(),
        "degraded": server.engine.is_degraded(),
    });
    json(if is_serving { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &body)
}

/// Metrics for Prometheus.
pub(super) async fn metrics(access: Access<Reads>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    of_kind(kind, access.server.scrape().await)
}

/// The configuration in force, the outcome of the last reload, and the control plane if there is one.
pub(super) async fn config(access: Access<Reads>) -> Response {
    let mut status = json!(access.server.reloads().status());
    if let Some(state) = access.server.xds().state() {
        status["xds"] = json!(state);
    }
    json(StatusCode::OK, &status)
}

/// The API's description. A test compares the server with it.
pub(super) async fn openapi() -> Response {
    of_kind("application/json", include_str!("openapi.json"))
}

/// The protocol file of our own gRPC service, for generating clients.
pub(super) async fn protocol() -> Response {
    let file = include_str!("../../../proto/waterclock/v1/rate_limiter.proto");
    of_kind("text/plain; charset=utf-8", file)
}

fn of_kind(kind: &'static str, body: impl IntoResponse) -> Response {
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The dashboard loads from here only, sends nothing elsewhere, and cannot be framed.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; \
    object-src 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A script at `/dashboard/…`.
macro_rules! script {
    ($name:literal) => {
        (concat!("/dashboard/", $name), SCRIPT, include_str!(concat!("../../dashboard/", $name)))
    };
}

/// Path, kind and content of each file.
const FILES: [(&str, &str, &str); 19] = [
    ("/", HTML, include_str!("../../dashboard/index.html")),
    ("/dashboard.css", CSS, include_str!("../../dashboard/dashboard.css")),
    ("/dashboard.js", SCRIPT, include_str!("../../dashboard/dashboard.js")),
    ("/dashboard/icon.svg", SVG, include_str!("../../dashboard/icon.svg")),
    script!("access.js"),
    script!("admin.js"),
    script!("api.js"),
    script!("chart.js"),
    script!("dom.js"),
    script!("feed.js"),
    script!("format.js"),
    script!("history.js"),
    script!("levels.js"),
    script!("overrides.js"),
    script!("overview.js"),
    script!("playground.js"),
    script!("policy.js"),
    script!("ranges.js"),
    script!("subject.js"),
];

/// The files of the dashboard.
pub(super) fn dashboard<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        let tag = format!("\"{:.16x}\"", Sha256::digest(text));
        let serve = async move |headers: HeaderMap| file(&headers, kind, text, &tag);
        router.route(path, get(serve))
    })
}

/// Browsers revalidate each time: a new server has a new dashboard.
fn file(asked: &HeaderMap, kind: &'static str, text: &'static str, tag: &str) -> Response {
    let is_known = asked
        .get(header::IF_NONE_MATCH)
        .and_then(|tags| tags.to_str().ok())
        .is_some_and(|tags| tags.split(',').any(|known| known.trim() == tag));
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { text.into_response() };
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, kind);
    set(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::CACHE_CONTROL, "no-cache");
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
