//! `/v1/authorize`: forward-auth for proxies, which read the status and the header fields only.

use std::borrow::Cow;
use std::net::IpAddr;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use waterclock::{Cost, CostError, Factor, FactorError, Verb};

use super::check::write_headers;
use super::problem::Problem;
use super::query::Query;
use super::request::{Call, Proxies, Question};
use crate::engine::{ActivePolicy, Check, Key, TIER};
use crate::observe::Face;
use crate::server::Server;

/// Decides about the request that a proxy holds back.
pub(super) async fn authorize(call: Call<Proxies>) -> Result<Response, Problem> {
    Ok(answer(&call.server, call.question()).await?.map(Body::from))
}

/// The same for a request that did not come through the router.
pub(super) async fn answer(
    server: &Server,
    question: Question<'_>,
) -> Result<http::Response<Bytes>, Problem> {
    let headers = question.headers;
    let (client, is_trusted) = server.client(question.peer, headers);
    let query = Query::read(question.query.unwrap_or_default());
    query.allow_only(&["policy", "key", "tier", "factor", "cost", "deny_status"])?;
    let name = query.get("policy").ok_or_else(|| {
        Problem::bad("policy", "`policy` is missing; send /v1/authorize?policy=NAME")
    })?;
    let deny = deny_status(&query)?;
    let cost = query.get("cost").map(|text| text.parse()).transpose();
    let cost: Option<Cost> =
        cost.map_err(|error: CostError| Problem::bad("cost", error.to_string()))?;
    let factor = query.get("factor").map(|text| text.parse()).transpose();
    let factor: Option<Factor> =
        factor.map_err(|error: FactorError| Problem::bad("factor", error.to_string()))?;
    let plan = server.engine.plan_knowing([&*name].into_iter()).await;
    let policy = plan.find(&name)?;
    let given = query.get("key");
    let key = match &given {
        Some(key) => policy.key(key.as_bytes())?,
        None => key_of_request(policy, client, is_trusted, headers)?,
    };
    let tier = tier_of_request(&query, is_trusted, headers);
    let tier = tier.filter(|_| query.get(TIER).is_some() || policy.has_tiers());
    let check = Check::new(policy, key, Verb::Check, cost.as_ref())?;
    let checks = [check.with_tier(tier)?.with_factor(factor)];
    let replies = server.engine.apply(Face::Http, Verb::Check, &checks).await?;
    let refused = replies.iter().any(|reply| reply.is_refusal());
    let mut response = http::Response::new(Bytes::new());
    *response.status_mut() = if refused { deny } else { StatusCode::OK };
    write_headers(&checks, &replies, response.headers_mut());
    Ok(response)
}

/// nginx accepts 401 and 403 only; other proxies pass any status on.
fn deny_status(query: &Query<'_>) -> Result<StatusCode, Problem> {
    let Some(status) = query.get("deny_status") else {
        return Ok(StatusCode::TOO_MANY_REQUESTS);
    };
    let status = status.parse().ok().filter(|status| (400..=599).contains(status));
    status.and_then(|status| StatusCode::from_u16(status).ok()).ok_or_else(|| {
        Problem::bad("deny_status", "`deny_status` must be a status from 400 to 599")
    })
}

/// The tier in the query, or in a header field that a trusted proxy forwards.
fn tier_of_request<'q>(
    query: &'q Query<'_>,
    is_trusted: bool,
    headers: &'q HeaderMap,
) -> Option<Cow<'q, str>> {
    let header = || headers.get("x-waterclock-tier").filter(|_| is_trusted)?.to_str().ok();
    let header = || header().filter(|tier| !tier.is_empty());
    query.get(TIER).or_else(|| header().map(Cow::Borrowed))
}

/// The client's address where the policy names no fields; else its fields, as the proxy forwards them.
fn key_of_request(
    policy: &ActivePolicy,
    client: IpAddr,
    is_trusted: bool,
    headers: &HeaderMap,
) -> Result<Key<'static>, Problem> {
    if policy.config().key.is_empty() {
        return Ok(policy.key_of_client(client)?);
    }
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let field = |name: &str| match name {
        "client_ip" => Some(Cow::Owned(client.to_string())),
        // An untrusted peer can forward anything.
        _ if !is_trusted => None,
        "method" => header("x-forwarded-method").map(Cow::Borrowed),
        "host" => header("x-forwarded-host").map(Cow::Borrowed),
        "path" => header("x-forwarded-uri")
            .map(|uri| Cow::Borrowed(uri.split(['?', '#']).next().unwrap_or_default())),
        _ => header(&format!("x-waterclock-{}", name.replace('_', "-"))).map(Cow::Borrowed),
    };
    policy.key_of_fields(field).map_err(|bad| {
        let problem = Problem::from(bad);
        if is_trusted { problem } else { problem.because("the peer is not in `trusted_proxies`") }
    })
}
