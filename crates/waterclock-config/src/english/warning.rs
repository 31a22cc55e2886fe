//! Warnings about valid configurations that may not do what their author expects.

use waterclock::{Limit, Mode, OnFull};

use super::limit::surprise;
use crate::{Address, Config, PolicyConfig};

/// One sentence each, with the policy and the limit it is about.
#[must_use]
pub fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = config.warnings.clone();
    if config.policies.is_empty() {
        warnings.push("the file has no policies: there is nothing to limit".to_owned());
    }
    warnings.extend(config.policies.iter().flat_map(about_policy));
    if let Ok(Address::Redis(_)) = config.store.address() {
        warnings.extend(without_effect_on_redis(config));
    }
    warnings
}

/// Settings of `memory:`.
fn without_effect_on_redis(config: &Config) -> impl Iterator<Item = String> {
    let snapshot = config.store.snapshot.as_ref();
    let snapshot =
        snapshot.map(|_| "`snapshot` has no effect: Redis keeps the state of keys".to_owned());
    let keeps_all =
        config.policies.iter().filter(|policy| policy.serving.on_full == OnFull::Refuse);
    let on_full = keeps_all.map(|policy| {
        format!("policy `{}`: `on_full` has no effect: Redis makes room for keys", policy.name())
    });
    snapshot.into_iter().chain(on_full)
}

fn about_policy(policy: &PolicyConfig) -> Vec<String> {
    let about_limit =
        |limit: &Limit| Some(format!("limit `{}` {}", limit.name(), surprise(limit)?));
    let mut warnings: Vec<String> = policy.limits().iter().filter_map(about_limit).collect();
    for name in &policy.disabled {
        warnings.push(format!(
            "old limit `{name}` is disabled: it needs `max` and `duration`, or `min_interval`"
        ));
    }
    warnings.extend(idle_limits(policy));
    warnings.into_iter().map(|warning| format!("policy `{}`: {warning}", policy.name())).collect()
}

/// Limits that never refuse, because another limit is always at least as strict. Of two equal limits, the later one.
fn idle_limits(policy: &PolicyConfig) -> Vec<String> {
    // In this mode, limits also count attempts that other limits refuse.
    if policy.policy().mode() == Mode::CountRefusals {
        return Vec::new();
    }
    let limits = policy.limits();
    let makes_idle = |other: usize, idle: usize| {
        let twins = idle < other && limits[other].never_binds_beside(&limits[idle]);
        idle != other && limits[idle].never_binds_beside(&limits[other]) && !twins
    };
    (0..limits.len())
        .filter_map(|idle| {
            let other = (0..limits.len()).find(|other| makes_idle(*other, idle))?;
            Some(format!(
                "limit `{}` never refuses: `{}` is always at least as strict",
                limits[idle].name(),
                limits[other].name()
            ))
        })
        .collect()
}
