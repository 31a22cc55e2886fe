//! `/v1/access`: what the caller may do, so that a page shows no control that would fail.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use serde::Serialize;

use super::problem::{Problem, json};
use super::request::let_in_any;
use crate::access::{Role, bearer_of};
use crate::server::Server;

#[derive(Serialize)]
struct AccessLine {
    /// The roles that the caller has.
    roles: Vec<&'static str>,
    /// Whether the server has tokens at all. Without any, there is no administrator.
    tokens: bool,
}

/// The roles of a token, or of a caller without one. An unknown token is 401.
pub(super) async fn access(
    State(server): State<Arc<Server>>,
    parts: Parts,
) -> Result<Response, Problem> {
    let_in_any(&server, &parts).await?;
    let roles = server.roles_of(bearer_of(&parts.headers));
    let roles = roles.into_iter().map(Role::name).collect();
    Ok(json(StatusCode::OK, &AccessLine { roles, tokens: server.has_tokens() }))
}
