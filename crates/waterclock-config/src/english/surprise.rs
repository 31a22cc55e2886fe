//! What a policy does that its author may not expect.

use super::limit::share;
use super::never_binds::never_binds;
use crate::{AlgorithmSpec, Config, LimitSpec, PolicyConfig, Window};

/// One sentence each, with the policy and the limit it is about.
pub fn surprises(config: &Config) -> Vec<String> {
    let mut surprises = config.oddities.clone();
    if config.policies.is_empty() {
        surprises.push("the file has no policies: there is nothing to limit".to_owned());
    }
    surprises.extend(config.policies.iter().flat_map(of_policy));
    surprises
}

fn of_policy(policy: &PolicyConfig) -> Vec<String> {
    let mut surprises: Vec<String> = policy
        .limits
        .iter()
        .filter_map(|limit| Some(format!("limit `{}` {}", limit.name, of_limit(limit)?)))
        .collect();
    for name in &policy.disabled {
        surprises.push(format!(
            "old limit `{name}` is disabled: it needs `max` and `duration`, or `min_interval`"
        ));
    }
    surprises.extend(idle_limits(policy));
    surprises.into_iter().map(|surprise| format!("policy `{}`: {surprise}", policy.name)).collect()
}

fn of_limit(limit: &LimitSpec) -> Option<String> {
    match &limit.algorithm {
        AlgorithmSpec::FixedWindow { limit, window } => {
            let windows = match window {
                Window::First(per) | Window::Epoch(per) => format!("windows of {per}"),
                Window::Calendar { per, .. } => format!("{per}s"),
            };
            Some(format!(
                "can admit {} within moments, around the edge of two {windows}; gcra and rolling-window cannot",
                2 * limit
            ))
        }
        AlgorithmSpec::Gcra { limit, per, capacity: 1, .. } => Some(format!(
            "has a capacity of 1: a request less than {} after another one is refused",
            share(*per, 1, *limit)
        )),
        AlgorithmSpec::LeakyBucket { capacity: 1, every, .. } => Some(format!(
            "has a capacity of 1: a request less than {every} after another one is refused"
        )),
        _ => None,
    }
}

/// Of two limits that make each other idle, being equal, the later one is the surprise.
fn idle_limits(policy: &PolicyConfig) -> Vec<String> {
    // Uniform limits also count what the others refuse.
    if policy.mode == "uniform" {
        return Vec::new();
    }
    let limits = &policy.limits;
    let makes_idle = |other: usize, idle: usize| {
        let twins = idle < other && never_binds(&limits[other], &limits[idle]);
        idle != other && never_binds(&limits[idle], &limits[other]) && !twins
    };
    (0..limits.len())
        .filter_map(|idle| {
            let other = (0..limits.len()).find(|other| makes_idle(*other, idle))?;
            Some(format!(
                "limit `{}` can never bind: `{}` never admits that much",
                limits[idle].name, limits[other].name
            ))
        })
        .collect()
}
