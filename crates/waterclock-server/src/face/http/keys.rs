//! How many keys are in memory, of which policy, and how to forget them.

use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::json as value;
use waterclock::{KeyUsage, MemoryStore, TscClock};

use super::problem::{Problem, json};
use super::request::{Access, Administers, PathOf, Reads};
use crate::engine::Engine;
use crate::off_workers::off_workers;

/// What the keys of all policies take.
#[derive(Serialize)]
struct Keys {
    keys: usize,
    max_keys: usize,
    log_bytes: usize,
    max_bytes: usize,
    /// Keys that were forgotten for others, since the server started.
    evicted: u64,
    /// Charges of keys that found no place.
    overflowed: u64,
    /// Times that logs became coarser.
    coarsened: u64,
    policies: Vec<KeysOfPolicy>,
}

#[derive(Serialize)]
struct KeysOfPolicy {
    name: String,
    keys: usize,
    guaranteed_keys: usize,
    log_bytes: usize,
    guaranteed_log_bytes: usize,
    on_full: &'static str,
}

impl KeysOfPolicy {
    fn new(name: &str, usage: KeyUsage, on_full: &'static str) -> KeysOfPolicy {
        let KeyUsage { keys, guaranteed_keys, log_bytes, guaranteed_log_bytes, .. } = usage;
        let name = name.to_owned();
        KeysOfPolicy { name, keys, guaranteed_keys, log_bytes, guaranteed_log_bytes, on_full }
    }
}

fn memory(engine: &Engine) -> Result<&MemoryStore<TscClock>, Problem> {
    engine.memory().ok_or_else(|| {
        let detail =
            "the keys are in Redis, which is not searched for them; this is for a store in memory";
        Problem::new(StatusCode::CONFLICT, detail)
    })
}

/// The policies with the most keys come first.
pub(super) async fn usage(access: Access<Reads>) -> Result<Response, Problem> {
    access.server.read_at_length(|server| count(&server.engine)).await
}

fn count(engine: &Engine) -> Result<Response, Problem> {
    let memory = memory(engine)?;
    let plan = engine.plan();
    let mut policies: Vec<KeysOfPolicy> = plan
        .policies()
        .filter_map(|active| {
            let usage = memory.usage_of(active.name())?;
            Some(KeysOfPolicy::new(active.name(), usage, active.config().serving.on_full.name()))
        })
        .collect();
    let throttle = engine.throttle_family();
    let usage = memory.usage_of(throttle);
    policies.extend(usage.map(|usage| KeysOfPolicy::new(throttle, usage, "evict")));
    policies.sort_by(|a, b| b.keys.cmp(&a.keys).then_with(|| a.name.cmp(&b.name)));
    let keys = Keys {
        keys: memory.len(),
        max_keys: memory.max_keys(),
        log_bytes: memory.log_bytes(),
        max_bytes: memory.max_bytes(),
        evicted: memory.evicted(),
        overflowed: memory.overflowed(),
        coarsened: memory.coarsened(),
        policies,
    };
    Ok(json(StatusCode::OK, &keys))
}

/// Forgets every key of a policy.
pub(super) async fn purge(
    access: Access<Administers>,
    path: PathOf<String>,
) -> Result<Response, Problem> {
    let Path(name) = path?;
    let engine = &access.server.engine;
    let memory = memory(engine)?.clone();
    if name != engine.throttle_family() {
        engine.plan().find(&name)?;
    }
    let policy = name.clone();
    // There may be a million of them.
    let purged = off_workers(move || memory.purge(&policy)).await;
    let keys = purged.ok_or_else(|| Problem::not_found(format!("policy `{name}` has no keys")))?;
    engine.lines().nudge_all(Some(&name));
    tracing::warn!(policy = name, keys, "an administrator purged the keys of a policy");
    Ok(json(StatusCode::OK, &value!({ "policy": name, "purged": keys })))
}
