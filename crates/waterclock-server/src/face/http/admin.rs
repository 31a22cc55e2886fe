//! Administration: policies in force, and single keys.

use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json as value;
use waterclock::{Cost, Verb};
use waterclock_config::{DecisionLine, OverrideLine};

use super::problem::{Problem, json};
use super::request::{Access, Administers, Call, Needs, PathOf, Reads};
use crate::describe::{describe_policy, describe_with_keys};
use crate::engine::{ActivePolicy, Check, Engine, Key, Plan, missing_answer};
use crate::observe::Face;
use crate::server::Server;

/// Every policy in force.
pub(super) async fn policies(access: Access<Reads>) -> Response {
    let describe_all = |server: &Server| {
        let plan = server.engine.plan();
        let mut policies: Vec<_> =
            plan.policies().map(|policy| describe_policy(&plan, policy)).collect();
        policies.sort_by_key(|policy| policy["name"].to_string());
        json(StatusCode::OK, &value!({ "policies": policies }))
    };
    access.server.read_at_length(describe_all).await
}

/// One policy in force.
pub(super) async fn policy(
    access: Access<Reads>,
    path: PathOf<String>,
) -> Result<Response, Problem> {
    let Path(name) = path?;
    let plan = access.server.engine.plan_knowing([&*name].into_iter()).await;
    let policy = plan.find(&name)?;
    Ok(json(StatusCode::OK, &describe_with_keys(&plan, policy)))
}

/// The policy and the key that a path names.
pub(super) type PolicyAndKey = (String, String);

pub(super) fn find<'a>(
    plan: &'a Plan,
    (policy, key): &'a PolicyAndKey,
) -> Result<(&'a ActivePolicy, Key<'a>), Problem> {
    let policy = plan.find(policy)?;
    Ok((policy, policy.key(key.as_bytes())?))
}

/// What a key has left. Nothing is charged.
pub(super) async fn read(
    path: PathOf<PolicyAndKey>,
    call: Call<Reads>,
) -> Result<Response, Problem> {
    apply_to_key(call, path, Verb::Peek, None).await
}

/// Resets a key.
pub(super) async fn reset(
    path: PathOf<PolicyAndKey>,
    call: Call<Administers>,
) -> Result<Response, Problem> {
    apply_to_key(call, path, Verb::Reset, None).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `cost`")]
struct Grant {
    cost: Cost,
}

/// Gives units back to a key.
pub(super) async fn grant(
    path: PathOf<PolicyAndKey>,
    call: Call<Administers>,
) -> Result<Response, Problem> {
    let Grant { cost } = serde_json::from_slice(&call.body).map_err(|error| {
        Problem::bad("cost", format!("the body must be {{\"cost\": units}}: {error}"))
    })?;
    apply_to_key(call, path, Verb::Refund, Some(&cost)).await
}

async fn apply_to_key<N: Needs>(
    call: Call<N>,
    path: PathOf<PolicyAndKey>,
    verb: Verb,
    cost: Option<&Cost>,
) -> Result<Response, Problem> {
    let Path(path) = path?;
    let plan = call.server.engine.plan_knowing([&*path.0].into_iter()).await;
    let (policy, key) = find(&plan, &path)?;
    answer(&call.server, Check::new(policy, key, verb, cost)?, verb).await
}

/// What a key has left, and what applies to it.
#[derive(Serialize)]
struct KeyState<'a> {
    #[serde(flatten)]
    decision: DecisionLine<'a>,
    exception: Option<&'static str>,
    /// The override that the store keeps.
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    kept: Option<OverrideLine<'a>>,
}

/// Applies a verb to one key, and shows what is left and which kind of override applies.
pub(super) async fn answer(
    server: &Server,
    check: Check<'_>,
    verb: Verb,
) -> Result<Response, Problem> {
    let replies = server.engine.apply(Face::Http, verb, std::slice::from_ref(&check)).await?;
    let reply = replies.first().ok_or_else(missing_answer)?;
    let kept = server.engine.override_of(check.policy, &check.key).await?;
    let exception = Engine::override_kind(check.policy, &check.key, kept.as_ref());
    let kept = kept.as_ref().map(|kept| OverrideLine::new(kept).without_key());
    Ok(json(StatusCode::OK, &KeyState { decision: reply.line(&check), exception, kept }))
}
