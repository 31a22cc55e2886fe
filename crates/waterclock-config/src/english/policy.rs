//! A policy in plain English.

use super::limit::{bound, sentence};
use crate::{PolicyConfig, TierConfig, percent};

/// A paragraph: what the policy does, then each limit with its bound.
pub fn describe(policy: &PolicyConfig) -> String {
    let mut lines = vec![format!("policy {}: {}", policy.name, opening(policy))];
    for limit in &policy.limits {
        let word = limit.algorithm.word();
        let called = if limit.name == word { String::new() } else { format!(" ({word})") };
        lines.push(format!("  {}{called}: {}", limit.name, sentence(limit)));
        lines.push(format!("    bound: {}.", bound(limit)));
    }
    lines.extend(policy.tiers.iter().flat_map(of_tier));
    lines.extend(of_keys(policy));
    lines.join("\n")
}

/// What goes for single keys.
fn of_keys(policy: &PolicyConfig) -> impl Iterator<Item = String> {
    let exempt = policy.exempt.iter().map(|key| format!("  exempt: {key:?}."));
    let blocked = policy.block.iter().map(|key| format!("  blocked: {key:?}."));
    let own = policy.overrides.iter().map(|(key, limits)| {
        let limits: Vec<String> = limits.iter().map(sentence).collect();
        format!("  instead for {key:?}: {}", limits.join(" "))
    });
    exempt.chain(blocked).chain(own)
}

/// What goes for one tier.
fn of_tier(tier: &TierConfig) -> Vec<String> {
    let opening = |rest: &str| format!("  tier {}: {rest}", tier.name);
    if tier.factor.is_one() {
        return vec![opening("the same limits.")];
    }
    if tier.limits.is_empty() {
        return vec![opening("no limits; everything is admitted and nothing charged.")];
    }
    let mut lines = vec![opening(&format!("the same budget by a factor of {}.", tier.factor))];
    lines
        .extend(tier.limits.iter().map(|limit| format!("    {}: {}", limit.name, sentence(limit))));
    lines
}

/// What it does; settings are mentioned where they are not the default.
fn opening(policy: &PolicyConfig) -> String {
    // Those in shadow take no part, unless all are.
    let live = policy.limits.iter().filter(|limit| !limit.shadow).count();
    let limits = if live == 0 { policy.limits.len() } else { live };
    let mut opening = match (limits, policy.mode) {
        (0, _) if policy.factor.is_zero() => {
            "admits everything: its factor of 0 disables its limits.".to_owned()
        }
        (0, _) => "admits everything: none of its limits limits anything.".to_owned(),
        (_, "nary") => "admits as much of a cost as fits.".to_owned(),
        (_, "uniform") => {
            "admits a cost whole or not at all, and records refused attempts too: hammering keeps a caller out.".to_owned()
        }
        (1, _) => "admits a cost whole or not at all.".to_owned(),
        (2, _) => "admits a cost whole or not at all, when both limits agree.".to_owned(),
        (limits, _) => format!("admits a cost whole or not at all, when all {limits} limits agree."),
    };
    if policy.built.counts_several() {
        let units: Vec<&str> = policy.built.units().collect();
        opening.push_str(&format!(" A cost names its units: {}.", units.join(", ")));
    }
    if !policy.key.is_empty() {
        opening.push_str(&format!(" One key for each {}.", policy.key.join(" and ")));
    }
    opening.push_str(match policy.headers {
        "none" => " Clients are told nothing.",
        "ietf" => " Clients are told in IETF RateLimit headers.",
        "draft-03" => " Clients are told in X-RateLimit headers of draft 03.",
        "legacy" => " Clients are told in old X-RateLimit headers.",
        _ => "",
    });
    opening.push_str(match policy.on_store_error {
        "allow" => " While the store is unreachable, everything is admitted.",
        "deny" => " While the store is unreachable, everything is refused.",
        _ => "",
    });
    if !policy.factor.is_zero() && !policy.factor.is_one() {
        opening.push_str(&format!(
            " Its limits are those of the file by a factor of {}.",
            policy.factor
        ));
    }
    if !policy.rollout.is_everybody() {
        let share = percent(policy.rollout);
        opening.push_str(&format!(
            " Rolled out to {share} of keys; for the others it is in shadow, reports and never refuses."
        ));
    }
    if policy.shadow {
        opening.push_str(" In shadow: it reports and never refuses.");
    }
    opening
}
