//! Limits of single keys, which the store keeps: one by one, as a list, and many at once.

use std::collections::HashSet;

use axum::extract::Path;
use axum::response::Response;
use futures_util::future::join_all;
use http::StatusCode;
use serde::Serialize;
use waterclock::{Failure, KeyOverride, StoreError, Verb};
use waterclock_config::{OverrideChange, OverrideJson, OverrideLine};

use super::admin::{PolicyAndKey, answer, find};
use super::problem::{Problem, json};
use super::query::Query;
use super::request::{Administers, Call, Loads, PathOf, Reads};
use crate::engine::{ActivePolicy, Check, Engine};

/// Overrides in one answer, unless the caller says how many.
const USUAL_COUNT: usize = 100;
const MAX_COUNT: usize = 1_000;
/// Lines of a list. An answer has at most one error for each.
const MAX_LINES: usize = 10_000;
/// Lines that wait for the store at the same time.
const AT_ONCE: usize = 64;

/// Sets what applies to a key instead of the policy's limits.
pub(super) async fn set(
    path: PathOf<PolicyAndKey>,
    call: Call<Administers>,
) -> Result<Response, Problem> {
    let body = OverrideJson::read(&call.body)?;
    let engine = &call.server.engine;
    let Path(path) = path?;
    let plan = engine.plan_knowing([&*path.0].into_iter()).await;
    let (policy, key) = find(&plan, &path)?;
    let (rule, expires_in) = body.rule(mode_of(policy), policy.config().limits())?;
    let new = KeyOverride::new(key.bytes(), rule).expires_in(expires_in);
    keep(engine, policy, &new).await?;
    answer(&call.server, Check::new(policy, key, Verb::Peek, None)?, Verb::Peek).await
}

/// The override of a key.
pub(super) async fn read(
    path: PathOf<PolicyAndKey>,
    call: Call<Reads>,
) -> Result<Response, Problem> {
    let Path(path) = path?;
    let plan = call.server.engine.plan_knowing([&*path.0].into_iter()).await;
    let (policy, key) = find(&plan, &path)?;
    match call.server.engine.override_of(policy, &key).await? {
        Some(kept) => Ok(json(StatusCode::OK, &OverrideLine::new(&kept).without_key())),
        None => Err(Problem::not_found("this key has no override")),
    }
}

/// Clears the override of a key.
pub(super) async fn clear(
    path: PathOf<PolicyAndKey>,
    call: Call<Administers>,
) -> Result<Response, Problem> {
    let Path(path) = path?;
    let plan = call.server.engine.plan_knowing([&*path.0].into_iter()).await;
    let (policy, key) = find(&plan, &path)?;
    call.server.engine.clear_override(policy, &key).await?;
    answer(&call.server, Check::new(policy, key, Verb::Peek, None)?, Verb::Peek).await
}

#[derive(Serialize)]
struct Page<'a> {
    overrides: Vec<OverrideLine<'a>>,
    next: Option<String>,
}

/// Some overrides of a policy, and where the next of them start.
pub(super) async fn list(path: PathOf<String>, call: Call<Reads>) -> Result<Response, Problem> {
    let query = Query::read(call.parts.uri.query().unwrap_or_default());
    query.allow_only(&["after", "count"])?;
    let count = match query.get("count") {
        None => USUAL_COUNT,
        Some(text) => {
            let count = text.parse().ok().filter(|count| (1..=MAX_COUNT).contains(count));
            count.ok_or_else(|| Problem::bad("count", "`count` must be from 1 to 1000"))?
        }
    };
    let Path(name) = path?;
    let plan = call.server.engine.plan_knowing([&*name].into_iter()).await;
    let (policy, after) = (plan.find(&name)?, query.get("after"));
    let page = call.server.engine.overrides(policy, after.as_deref(), count).await;
    let page = page.map_err(|error| match error {
        StoreError::Unfit(_) => Problem::bad("after", error.to_string()),
        error => error.into(),
    })?;
    let overrides = page.overrides.iter().map(OverrideLine::new).collect();
    Ok(json(StatusCode::OK, &Page { overrides, next: page.next }))
}

/// What became of a list.
#[derive(Default, Serialize)]
struct Loaded {
    set: usize,
    cleared: usize,
    errors: Vec<LineError>,
}

#[derive(Serialize)]
struct LineError {
    line: usize,
    detail: String,
}

/// Sets and clears overrides, one for each line. A line that fails does not stop the others.
pub(super) async fn load(path: PathOf<String>, call: Call<Loads>) -> Result<Response, Problem> {
    let engine = &call.server.engine;
    let Path(name) = path?;
    let plan = engine.plan_knowing([&*name].into_iter()).await;
    let policy = plan.find(&name)?;
    let lines = lines_of(&call.body);
    if lines.is_empty() {
        return Err(Problem::bad(
            "body",
            "the list is empty; send a line of JSON for each override",
        ));
    }
    if lines.len() > MAX_LINES {
        let detail = format!("a list must have at most {MAX_LINES} lines; send it in parts");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    let mut loaded = Loaded::default();
    let mut left = lines.into_iter();
    while !left.as_slice().is_empty() {
        // Of two lines for one key, the second must come second.
        let (mut changes, mut keys) = (Vec::new(), HashSet::new());
        for (at, line) in left.by_ref() {
            match read_line(policy, line) {
                Ok((key, change)) => {
                    let is_new = keys.insert(key);
                    changes.push((at, change));
                    if !is_new || changes.len() == AT_ONCE {
                        break;
                    }
                }
                Err(problem) => loaded.fail(at, problem),
            }
        }
        // The last line may repeat a key of the others.
        let last = changes.len().saturating_sub(1);
        let (others, repeated) = changes.split_at(last);
        for some in [others, repeated] {
            let done = join_all(some.iter().map(|(_, change)| apply(engine, policy, change))).await;
            for ((at, _), done) in some.iter().zip(done) {
                match done {
                    Ok(Done::Set) => loaded.set += 1,
                    Ok(Done::Cleared) => loaded.cleared += 1,
                    Ok(Done::Nothing) => {}
                    Err(problem) => loaded.fail(*at, problem),
                }
            }
        }
        // A store in memory is always ready, and others wait for this thread.
        tokio::task::yield_now().await;
    }
    loaded.errors.sort_by_key(|error| error.line);
    let (set, cleared, failed) = (loaded.set, loaded.cleared, loaded.errors.len());
    tracing::info!(policy = name, set, cleared, failed, "an administrator loaded overrides");
    let is_whole = loaded.errors.is_empty();
    Ok(json(if is_whole { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY }, &loaded))
}

/// The lines that are not blank with their places, and one more than there may be at most.
fn lines_of(body: &[u8]) -> Vec<(usize, &[u8])> {
    let lines = body.split(|byte| *byte == b'\n').enumerate();
    lines.filter(|(_, line)| !line.trim_ascii().is_empty()).take(MAX_LINES + 1).collect()
}

impl Loaded {
    fn fail(&mut self, at: usize, problem: Problem) {
        self.errors.push(LineError { line: at + 1, detail: problem.into_detail() });
    }
}

enum Done {
    Set,
    Cleared,
    /// There was none to clear.
    Nothing,
}

/// The key as the store knows it, and what the line does to it.
fn read_line(policy: &ActivePolicy, line: &[u8]) -> Result<(Vec<u8>, OverrideChange), Problem> {
    let read = OverrideJson::read(line)?;
    let known = |key: &[u8]| Ok::<_, Problem>(policy.key(key)?.bytes().to_vec());
    Ok(match read.change(mode_of(policy), policy.config().limits())? {
        OverrideChange::Set(mut new) => {
            new.key = known(&new.key)?;
            (new.key.clone(), OverrideChange::Set(new))
        }
        OverrideChange::Clear(key) => {
            let key = known(&key)?;
            (key.clone(), OverrideChange::Clear(key))
        }
    })
}

async fn apply(
    engine: &Engine,
    policy: &ActivePolicy,
    change: &OverrideChange,
) -> Result<Done, Problem> {
    match change {
        OverrideChange::Set(new) => keep(engine, policy, new).await.map(|()| Done::Set),
        OverrideChange::Clear(key) => {
            let had_one = engine.clear_override_of(policy, key).await?;
            Ok(if had_one { Done::Cleared } else { Done::Nothing })
        }
    }
}

/// Sets an override. What is wrong with it is its rule's fault.
async fn keep(engine: &Engine, policy: &ActivePolicy, new: &KeyOverride) -> Result<(), Problem> {
    engine.set_override(policy, new).await.map_err(|error| match &error {
        StoreError::Unfit(_) => Problem::bad(new.rule.kind(), error.to_string()),
        StoreError::Failed { kind: Failure::Overloaded, reason, .. }
            if engine.memory().is_some() =>
        {
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, reason)
        }
        _ => error.into(),
    })
}

fn mode_of(policy: &ActivePolicy) -> waterclock::Mode {
    policy.config().policy().mode()
}
