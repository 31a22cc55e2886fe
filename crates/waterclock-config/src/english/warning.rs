//! Warnings about valid configurations that may not do what their author expects.

use serde::Serialize;
use waterclock::{Limit, Mode, OnFull};

use super::limit::surprise;
use crate::{Address, Config, Place, PolicyConfig};

/// What may surprise: a code for programs, and a sentence for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Warning {
    /// What it is about, such as `window-edge`. Codes stay; sentences may change.
    pub code: &'static str,
    /// The policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The limit of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The limit that is stricter, of `idle-limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because_of: Option<String>,
    /// The setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting: Option<&'static str>,
    /// The rule, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<usize>,
    /// The most that a window's edge admits, or the capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u64>,
    /// The place in a file, where it is known.
    #[serde(flatten)]
    pub place: Option<Place>,
    /// The whole sentence.
    pub message: String,
}

impl Warning {
    /// A warning that is all in its sentence.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Warning {
        Warning { code, message: message.into(), ..Warning::default() }
    }

    /// The same, at a place.
    #[must_use]
    pub fn at(self, place: Option<Place>) -> Warning {
        Warning { place, ..self }
    }
}

/// One for each surprise, with the policy and the limit it is about.
#[must_use]
pub fn warnings(config: &Config) -> Vec<Warning> {
    let mut warnings = config.warnings.clone();
    if config.policies.is_empty() {
        let message = "the file has no policies: there is nothing to limit";
        warnings.push(Warning::new("no-policies", message));
    }
    warnings.extend(config.policies.iter().flat_map(about_policy));
    if let Ok(Address::Redis(_)) = config.store.address() {
        warnings.extend(without_effect_on_redis(config));
    }
    warnings
}

/// Settings of `memory:`.
fn without_effect_on_redis(config: &Config) -> impl Iterator<Item = Warning> {
    let no_effect = |setting, message: String| Warning {
        setting: Some(setting),
        ..Warning::new("no-effect", message)
    };
    let snapshot = config.store.snapshot.as_ref().map(move |_| {
        no_effect("snapshot", "`snapshot` has no effect: Redis keeps the state of keys".to_owned())
    });
    let keeps_all =
        config.policies.iter().filter(|policy| policy.serving.on_full == OnFull::Refuse);
    let on_full = keeps_all.map(move |policy| {
        let name = policy.name();
        let message =
            format!("policy `{name}`: `on_full` has no effect: Redis makes room for keys");
        Warning { policy: Some(name.to_owned()), ..no_effect("on_full", message) }
    });
    snapshot.into_iter().chain(on_full)
}

fn about_policy(policy: &PolicyConfig) -> Vec<Warning> {
    let name = policy.name();
    let about = |code, limit: &str, rest: String| Warning {
        policy: Some(name.to_owned()),
        limit: Some(limit.to_owned()),
        ..Warning::new(code, format!("policy `{name}`: {rest}"))
    };
    let about_limit = |limit: &Limit| {
        let surprise = surprise(limit)?;
        let rest = format!("limit `{}` {}", limit.name(), surprise.words);
        let units = Some(surprise.units);
        Some(Warning { units, ..about(surprise.code, limit.name(), rest) })
    };
    let disabled = policy.disabled.iter().map(|limit| {
        let needs = "it needs `max` and `duration`, or `min_interval`";
        about("disabled-limit", limit, format!("old limit `{limit}` is disabled: {needs}"))
    });
    let of_limits = policy.limits().iter().filter_map(about_limit);
    of_limits.chain(disabled).chain(idle_limits(policy)).collect()
}

/// Limits that never refuse, because another limit is always at least as strict. Of two equal limits, the later one.
#[must_use]
pub fn idle_limits(policy: &PolicyConfig) -> Vec<Warning> {
    // In this mode, limits also count attempts that other limits refuse.
    if policy.policy().mode() == Mode::CountRefusals {
        return Vec::new();
    }
    let (name, limits) = (policy.name(), policy.limits());
    let makes_idle = |other: usize, idle: usize| {
        let twins = idle < other && limits[other].never_binds_beside(&limits[idle]);
        idle != other && limits[idle].never_binds_beside(&limits[other]) && !twins
    };
    (0..limits.len())
        .filter_map(|idle| {
            let other = (0..limits.len()).find(|other| makes_idle(*other, idle))?;
            let (idle, other) = (limits[idle].name(), limits[other].name());
            let message = format!(
                "policy `{name}`: limit `{idle}` never refuses: `{other}` is always at least as strict"
            );
            Some(Warning {
                policy: Some(name.to_owned()),
                limit: Some(idle.to_owned()),
                because_of: Some(other.to_owned()),
                ..Warning::new("idle-limit", message)
            })
        })
        .collect()
}
