//! Administration: policies, and what goes for single keys.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use serde::Deserialize;
use serde_json::json;
use waterclock::{Cost, Verb};

use super::Shared;
use super::decide::{json, nothing_said, price};
use super::guard::{body_of, open, room};
use super::problem::Problem;
use crate::access::Role;
use crate::decision_line::DecisionLine;
use crate::engine::{ActivePolicy, Check, Key, NewOverride, Plan};
use crate::observe::Face;
use crate::server::Server;
use waterclock_config::{NormalisedPolicy, other_units, read_limits};

/// Every policy in force.
pub(super) async fn policies(State(server): Shared, parts: Parts) -> Response {
    if let Err(problem) = open(&server, &parts, Role::Read) {
        return problem.into_response();
    }
    let plan = server.engine.plan();
    let mut policies: Vec<_> = plan.policies().map(|served| about(served)).collect();
    policies.sort_by_key(|policy| policy["name"].to_string());
    json(StatusCode::OK, &json!({ "policies": policies }))
}

/// One of them.
pub(super) async fn policy(
    State(server): Shared,
    Path(name): Path<String>,
    parts: Parts,
) -> Response {
    let found = || {
        open(&server, &parts, Role::Read)?;
        let plan = server.engine.plan();
        let served = plan.find(&name).map_err(Problem::not_found)?;
        Ok(json(StatusCode::OK, &about(served)))
    };
    found().unwrap_or_else(|problem: Problem| problem.into_response())
}

fn about(served: &ActivePolicy) -> serde_json::Value {
    let spec = served.config();
    let mut about = json!(NormalisedPolicy::new(spec));
    about["name"] = json!(spec.name);
    about["key"] = json!(spec.key);
    about["headers"] = json!(spec.headers);
    about["on_store_error"] = json!(spec.on_store_error);
    about
}

type Place = Path<(String, String)>;

/// The policy and the key that a path names.
fn key_in<'a>(
    plan: &'a Plan,
    policy: &str,
    key: &'a str,
) -> Result<(&'a Arc<ActivePolicy>, Key<'a>), Problem> {
    let served = plan.find(policy).map_err(Problem::not_found)?;
    Ok((served, served.key(key.as_bytes())?))
}

/// What a key has left. Nothing is charged.
pub(super) async fn read(state: Shared, place: Place, parts: Parts) -> Response {
    on_key(state, place, parts, Role::Read, Verb::Peek).await
}

/// Forgets a key.
pub(super) async fn reset(state: Shared, place: Place, parts: Parts) -> Response {
    on_key(state, place, parts, Role::Admin, Verb::Reset).await
}

async fn on_key(
    State(server): Shared,
    Path((policy, key)): Place,
    parts: Parts,
    role: Role,
    verb: Verb,
) -> Response {
    let done = async {
        open(&server, &parts, role)?;
        let _room = room(&server)?;
        let plan = server.engine.plan();
        let (served, key) = key_in(&plan, &policy, &key)?;
        on(&server, served, &key, verb, price(served, verb, None)?).await
    };
    done.await.unwrap_or_else(|problem: Problem| problem.into_response())
}

async fn on(
    server: &Server,
    served: &Arc<ActivePolicy>,
    key: &Key<'_>,
    verb: Verb,
    cost: Cost,
) -> Result<Response, Problem> {
    let ask = Check { policy: served, key, cost: cost.clone(), tier: None, rate: None };
    let replies = server.engine.apply(Face::Http, verb, &[ask]).await?;
    let reply = replies.first().ok_or_else(nothing_said)?;
    let text = String::from_utf8_lossy(key.bytes());
    let answer = DecisionLine::in_full(served.name(), &reply.policy, &text, &cost, &reply.answer);
    let mut answer = json!(answer);
    answer["exception"] = json!(server.engine.override_kind(served, key));
    Ok(json(StatusCode::OK, &answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Grant {
    cost: Cost,
}

/// Gives a key units back.
pub(super) async fn grant(
    State(server): Shared,
    Path((policy, key)): Place,
    parts: Parts,
    body: Body,
) -> Response {
    let done = async {
        open(&server, &parts, Role::Admin)?;
        let body = body_of(&server, &parts.headers, body).await?;
        let _room = room(&server)?;
        let Grant { cost } = serde_json::from_slice(&body).map_err(|error| {
            Problem::bad("cost", format!("the body must be {{\"cost\": units}}: {error}"))
        })?;
        let plan = server.engine.plan();
        let (served, key) = key_in(&plan, &policy, &key)?;
        let cost = price(served, Verb::Refund, Some(&cost))?;
        on(&server, served, &key, Verb::Refund, cost).await
    };
    done.await.unwrap_or_else(|problem: Problem| problem.into_response())
}

/// What goes for a key instead: one of the three.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    block: bool,
    #[serde(default)]
    exempt: bool,
    limits: Option<Vec<serde_json::Value>>,
}

const INSTEAD: &str =
    "the body must be {\"block\": true}, {\"exempt\": true} or {\"limits\": [\"100/s\", …]}";

/// Blocks or exempts a key, or gives it limits of its own, until that is taken back.
pub(super) async fn make_exception(
    State(server): Shared,
    Path((policy, key)): Place,
    parts: Parts,
    body: Body,
) -> Response {
    let done = async {
        open(&server, &parts, Role::Admin)?;
        let body = body_of(&server, &parts.headers, body).await?;
        let _room = room(&server)?;
        let asked: Asked = serde_json::from_slice(&body)
            .map_err(|error| Problem::bad("body", format!("{INSTEAD}: {error}")))?;
        let plan = server.engine.plan();
        let (served, key) = key_in(&plan, &policy, &key)?;
        let instead = match asked {
            Asked { block: true, exempt: false, limits: None } => NewOverride::Block,
            Asked { block: false, exempt: true, limits: None } => NewOverride::Exempt,
            Asked { block: false, exempt: false, limits: Some(limits) } => {
                let limits = read_limits(&limits, served.config().mode)
                    .map_err(|reason| Problem::bad("limits", reason))?;
                match other_units(&limits, &served.config().limits) {
                    Some(reason) => return Err(Problem::bad("limits", reason)),
                    None => NewOverride::Limits(limits),
                }
            }
            _ => return Err(Problem::bad("body", INSTEAD)),
        };
        if !server.engine.set_override(served, &key, instead).await? {
            let detail = "there are too many exceptions; take some back, or configure them";
            return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail));
        }
        on(&server, served, &key, Verb::Peek, price(served, Verb::Peek, None)?).await
    };
    done.await.unwrap_or_else(|problem: Problem| problem.into_response())
}

/// The policy goes for the key again.
pub(super) async fn take_back_exception(
    State(server): Shared,
    Path((policy, key)): Place,
    parts: Parts,
) -> Response {
    let done = async {
        open(&server, &parts, Role::Admin)?;
        let _room = room(&server)?;
        let plan = server.engine.plan();
        let (served, key) = key_in(&plan, &policy, &key)?;
        server.engine.clear_override(served, &key).await;
        on(&server, served, &key, Verb::Peek, price(served, Verb::Peek, None)?).await
    };
    done.await.unwrap_or_else(|problem: Problem| problem.into_response())
}
