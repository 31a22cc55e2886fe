//! Policies in force as JSON, for every face that shows them.

use serde_json::{Value, json as value};
use waterclock_config::PolicyJson;

use crate::engine::{ActivePolicy, Plan};

/// A policy with the keys that its configuration blocks, exempts and overrides. There may be many.
pub(crate) fn describe_with_keys(plan: &Plan, policy: &ActivePolicy) -> Value {
    let mut description = describe_policy(plan, policy);
    let config = policy.config();
    let overridden: Vec<String> = config.overrides.iter().map(|(key, _)| key.clone()).collect();
    let lists = [("block", &config.block), ("exempt", &config.exempt), ("overridden", &overridden)];
    for (name, keys) in lists.into_iter().filter(|(_, keys)| !keys.is_empty()) {
        description[name] = value!(keys);
    }
    description
}

/// The policy of this name, if there is one.
pub(crate) fn describe(plan: &Plan, name: &str) -> Option<Value> {
    plan.policy(name).map(|policy| describe_policy(plan, policy))
}

/// A policy of the plan, and where it comes from.
pub(crate) fn describe_policy(plan: &Plan, policy: &ActivePolicy) -> Value {
    let config = policy.config();
    let mut description = value!(PolicyJson::from(config));
    description["name"] = value!(config.name());
    description["key"] = value!(config.key);
    description["headers"] = value!(config.headers.name());
    if !config.jitter.is_none() {
        description["jitter"] = value!(config.jitter.to_string());
    }
    description["on_store_error"] = value!(config.serving.on_store_error.name());
    if let Some(local_for) = config.serving.local_for {
        description["local_for_us"] = value!(local_for.as_micros());
    }
    description["on_full"] = value!(config.serving.on_full.name());
    let name = config.name();
    description["origin"] = value!(match plan.is_of_file(name) {
        true => "file",
        false if plan.pushed().policy(name).is_some() => "envoy",
        false => "store",
    });
    // Beside a policy of the file this is the one that it hides.
    let kept = plan.kept_text(config.name()).and_then(|text| serde_json::from_str(text).ok());
    kept.into_iter().for_each(|kept: Value| description["definition"] = kept);
    description
}
