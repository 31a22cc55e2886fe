//! The small HTTP ports of Envoy's reference rate limit service, for deployments that expect them: health and `/json`,
//! debugging, metrics. Nothing else is served there.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::face::grpc::decide_alone;
use crate::face::grpc::proto::{
    Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse,
};
use crate::listen::SidePort;
use crate::reference::{Descriptor, hits_text};
use crate::server::{Phase, Server};

/// The longest body of `/json`.
const MAX_BODY: usize = 64 * 1_024;

/// What a port serves.
pub(crate) fn router(server: Arc<Server>, port: &SidePort) -> Router {
    let router = match port {
        SidePort::Main => Router::new()
            .route("/healthcheck", get(healthcheck))
            .route("/json", post(json_check).layer(DefaultBodyLimit::max(MAX_BODY))),
        SidePort::Debug => {
            Router::new().route("/rlconfig", get(rlconfig)).route("/stats", get(stats))
        }
        SidePort::Metrics(path) => Router::new().route(path, get(metrics)),
    };
    router.with_state(server)
}

async fn healthcheck(State(server): State<Arc<Server>>) -> Response {
    let reference = server.reference();
    let is_loaded = !reference.healthy_when_loaded || !server.engine.plan().pushed().is_awaited();
    let is_stored = !reference.healthy_with_store || !server.engine.is_degraded();
    match *server.phase().borrow() == Phase::Serving && is_loaded && is_stored {
        true => "OK".into_response(),
        false => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The limits in force, a line for each.
async fn rlconfig(State(server): State<Arc<Server>>) -> String {
    let read = |server: &Server| {
        let mut text = String::new();
        for domain in &**server.engine.plan().pushed().domains() {
            lines(&domain.name, &domain.descriptors, &mut text);
        }
        text
    };
    server.read_at_length(read).await
}

fn lines(path: &str, descriptors: &[Descriptor], text: &mut String) {
    for descriptor in descriptors {
        let value = if descriptor.value.is_empty() { "" } else { "_" };
        let path = format!("{path}.{}{value}{}", descriptor.key, descriptor.value);
        if let Some(limit) = &descriptor.limit {
            let (unit, requests) = (limit.unit.as_str_name(), limit.requests);
            // Writing to a string does not fail.
            _ = writeln!(
                text,
                "{path}: unit={unit} requests_per_unit={requests}, shadow_mode: {}, quota_mode: {}",
                descriptor.shadow, descriptor.quota
            );
        }
        lines(&path, &descriptor.below, text);
    }
}

async fn stats(State(server): State<Arc<Server>>) -> String {
    server
        .read_at_length(|server| hits_text(server.engine.plan().pushed().hits().into_iter()))
        .await
}

async fn metrics(State(server): State<Arc<Server>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], server.scrape().await).into_response()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    #[serde(default)]
    domain: String,
    #[serde(default)]
    descriptors: Vec<AskedDescriptor>,
    #[serde(default, alias = "hits_addend")]
    hits_addend: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AskedDescriptor {
    #[serde(default)]
    entries: Vec<AskedEntry>,
    #[serde(default, alias = "hits_addend")]
    hits_addend: Option<u64>,
}

#[derive(Deserialize)]
struct AskedEntry {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
}

/// One request in JSON: 200, 429 if it is over a limit, 500 if there is no decision.
async fn json_check(State(server): State<Arc<Server>>, body: Bytes) -> Response {
    let asked: Asked = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let entry = |entry: AskedEntry| Entry { key: entry.key, value: entry.value.into_bytes() };
    let descriptor = |asked: AskedDescriptor| RateLimitDescriptor {
        entries: asked.entries.into_iter().map(entry).collect(),
        hits_addend: asked.hits_addend,
        ..RateLimitDescriptor::default()
    };
    let request = RateLimitRequest {
        domain: asked.domain,
        descriptors: asked.descriptors.into_iter().map(descriptor).collect(),
        hits_addend: asked.hits_addend,
    };
    match decide_alone(&server, &request).await {
        Ok(answer) => {
            let status = match answer.overall_code() {
                Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
                _ => StatusCode::OK,
            };
            (status, [(header::CONTENT_TYPE, "application/json")], shown(&answer).to_string())
                .into_response()
        }
        Err(status) => {
            let message = status.message().to_owned();
            (StatusCode::INTERNAL_SERVER_ERROR, message).into_response()
        }
    }
}

fn shown(answer: &RateLimitResponse) -> Value {
    let status = |status: &DescriptorStatus| {
        let mut shown = json!({ "code": status.code().as_str_name() });
        if let Some(limit) = &status.current_limit {
            shown["currentLimit"] = json!({
                "requestsPerUnit": limit.requests_per_unit,
                "unit": limit.unit().as_str_name(),
            });
            shown["limitRemaining"] = json!(status.limit_remaining);
        }
        if let Some(reset) = &status.duration_until_reset {
            shown["durationUntilReset"] = json!(format!("{}s", reset.seconds));
        }
        shown
    };
    json!({
        "overallCode": answer.overall_code().as_str_name(),
        "statuses": answer.statuses.iter().map(status).collect::<Vec<_>>(),
    })
}
