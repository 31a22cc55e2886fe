//! `/v1/authorize`: forward-auth for proxies, which only look at the status and the header fields.

use std::borrow::Cow;
use std::net::IpAddr;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, StatusCode, Uri};
use waterclock::{Cost, CostError, Verb};

use super::decide::price;
use super::problem::Problem;
use super::query::Query;
use crate::engine::{ActivePolicy, Check, Key, TIER};
use crate::observe::Face;
use crate::server::Server;

/// What a proxy asks about the request it holds back.
pub(super) async fn authorize(
    server: &Server,
    client: IpAddr,
    is_trusted: bool,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::read(uri.query().unwrap_or_default());
    query.only(&["policy", "key", "tier", "cost", "deny_status"])?;
    let name = query.get("policy").ok_or_else(|| {
        Problem::bad("policy", "`policy` is missing; ask /v1/authorize?policy=NAME")
    })?;
    let deny = deny_status(&query)?;
    let cost = query.get("cost").map(|text| text.parse()).transpose();
    let cost: Option<Cost> =
        cost.map_err(|error: CostError| Problem::bad("cost", error.to_string()))?;
    let plan = server.engine.plan();
    let served = plan.find(&name).map_err(Problem::not_found)?;
    let given = query.get("key");
    let key = match &given {
        Some(key) => served.key(key.as_bytes())?,
        None => key_of_request(served, client, is_trusted, headers)?,
    };
    let cost = price(served, Verb::Check, cost.as_ref())?;
    let tier = tier_of_request(&query, is_trusted, headers);
    let ask = Check { policy: served, key: &key, cost, tier: tier.as_deref(), rate: None };
    let replies = server.engine.apply(Face::Http, Verb::Check, &[ask]).await?;
    let refused = replies.iter().any(|reply| reply.is_refusal());
    let mut response = Response::new(Body::empty());
    *response.status_mut() = if refused { deny } else { StatusCode::OK };
    super::told([served].into_iter(), &replies, response.headers_mut());
    Ok(response)
}

/// nginx takes 401 and 403 only; others pass the status on.
fn deny_status(query: &Query<'_>) -> Result<StatusCode, Problem> {
    let Some(status) = query.whole("deny_status")? else {
        return Ok(StatusCode::TOO_MANY_REQUESTS);
    };
    let status = u16::try_from(status).ok().filter(|status| (400..=599).contains(status));
    status.and_then(|status| StatusCode::from_u16(status).ok()).ok_or_else(|| {
        Problem::bad("deny_status", "`deny_status` must be a status from 400 to 599")
    })
}

/// The tier that the proxy names, in its question or in a field of the request. An untrusted peer has none to
/// give away.
fn tier_of_request<'q>(
    query: &'q Query<'_>,
    is_trusted: bool,
    headers: &'q HeaderMap,
) -> Option<Cow<'q, str>> {
    let header = || headers.get("x-waterclock-tier").filter(|_| is_trusted)?.to_str().ok();
    query.get(TIER).or_else(|| header().map(Cow::Borrowed))
}

/// The client's address where the policy names no fields; else its fields, as the proxy tells them.
fn key_of_request(
    served: &ActivePolicy,
    client: IpAddr,
    is_trusted: bool,
    headers: &HeaderMap,
) -> Result<Key<'static>, Problem> {
    if served.config().key.is_empty() {
        return Ok(served.key_of_client(client)?);
    }
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let field = |name: &str| match name {
        "client_ip" => Some(Cow::Owned(client.to_string())),
        // What an untrusted peer forwards is what it likes.
        _ if !is_trusted => None,
        "method" => header("x-forwarded-method").map(Cow::Borrowed),
        "host" => header("x-forwarded-host").map(Cow::Borrowed),
        "path" => header("x-forwarded-uri")
            .map(|uri| Cow::Borrowed(uri.split(['?', '#']).next().unwrap_or_default())),
        _ => header(&format!("x-waterclock-{}", name.replace('_', "-"))).map(Cow::Borrowed),
    };
    served.key_of_fields(field).map_err(|bad| {
        let problem = Problem::from(bad);
        if is_trusted { problem } else { problem.because("the peer is not in `trusted_proxies`") }
    })
}
