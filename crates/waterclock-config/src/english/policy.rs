//! Policies and rules in plain English.

use waterclock::{HeaderStyle, Limit, Mode, OnFull, OnStoreError};

use super::limit::{bound, in_words, sentence};
use crate::{Pattern, PolicyConfig, RuleCharge, RuleConfig, RuleMatch, Then, TierConfig, percent};

/// A paragraph: what the policy does, then each limit with its bound.
#[must_use]
pub fn describe(policy: &PolicyConfig) -> String {
    let mut lines = vec![format!("policy {}: {}", policy.name(), opening(policy))];
    for limit in policy.limits() {
        let (name, word) = (limit.name(), limit.algorithm().name());
        let called = if name == word { String::new() } else { format!(" ({word})") };
        lines.push(format!("  {name}{called}: {}", sentence(limit)));
        lines.push(format!("    bound: {}.", bound(limit)));
    }
    lines.extend(policy.tiers.iter().flat_map(of_tier));
    lines.extend(
        policy.scope.default_tier().map(|tier| format!("  unknown tiers: as tier {tier}.")),
    );
    lines.extend(of_keys(policy));
    lines.join("\n")
}

/// The exceptions for single keys.
fn of_keys(policy: &PolicyConfig) -> impl Iterator<Item = String> {
    let exempt = policy.exempt.iter().map(|key| format!("  exempt: {key:?}."));
    let blocked = policy.block.iter().map(|key| format!("  blocked: {key:?}."));
    let own = policy.overrides.iter().map(|(key, own)| {
        let limits: Vec<String> = own.limits().iter().map(sentence).collect();
        format!("  override for {key:?}: {}", limits.join(" "))
    });
    exempt.chain(blocked).chain(own)
}

/// The limits of one tier.
fn of_tier(tier: &TierConfig) -> Vec<String> {
    let opening = |rest: &str| format!("  tier {}: {rest}", tier.name);
    if tier.factor.is_one() {
        return vec![opening("the same limits.")];
    }
    if tier.policy.limits().is_empty() {
        return vec![opening("no limits; everything is admitted and nothing charged.")];
    }
    let mut lines = vec![opening(&format!("the same budget, scaled by factor {}.", tier.factor))];
    let limit = |limit: &Limit| format!("    {}: {}", limit.name(), sentence(limit));
    lines.extend(tier.policy.limits().iter().map(limit));
    lines
}

/// What it does; settings are mentioned where they are not the default.
fn opening(policy: &PolicyConfig) -> String {
    // Shadow limits do not count, unless all limits are in shadow.
    let live = policy.limits().iter().filter(|limit| !limit.is_shadow()).count();
    let limits = if live == 0 { policy.limits().len() } else { live };
    let mut opening = match (limits, policy.policy().mode()) {
        (0, _) if policy.factor.is_zero() => {
            "admits everything: its factor of 0 disables its limits.".to_owned()
        }
        (0, _) => "admits everything: none of its limits has any effect.".to_owned(),
        (_, Mode::Partial) => "admits as much of a cost as fits.".to_owned(),
        (_, Mode::CountRefusals) => {
            "admits a cost whole or not at all, and counts refused attempts too: a client that keeps retrying stays refused.".to_owned()
        }
        (1, _) => "admits a cost whole or not at all.".to_owned(),
        (2, _) => "admits a cost whole or not at all, when both limits agree.".to_owned(),
        (limits, _) => format!("admits a cost whole or not at all, when all {limits} limits agree."),
    };
    if policy.policy().counts_several() {
        let units: Vec<&str> = policy.policy().units().collect();
        opening.push_str(&format!(" Costs are given per unit: {}.", units.join(", ")));
    }
    if !policy.key.is_empty() {
        opening.push_str(&format!(" One key for each {}.", policy.key.join(" and ")));
    }
    opening.push_str(match policy.headers {
        HeaderStyle::None => " Responses carry no rate limit headers.",
        HeaderStyle::Ietf => " Responses carry IETF RateLimit headers.",
        HeaderStyle::Draft10 => " Responses carry RateLimit headers of draft 10.",
        HeaderStyle::GitHub => " Responses carry X-RateLimit headers as GitHub's do.",
        HeaderStyle::Draft03 => " Responses carry X-RateLimit headers of draft 03.",
        HeaderStyle::Legacy => " Responses carry legacy X-RateLimit headers.",
        _ => "",
    });
    if !policy.jitter.is_none() {
        opening.push_str(&format!(" Retry-After is spread upwards by up to {}.", policy.jitter));
    }
    opening.push_str(match policy.serving.on_store_error {
        OnStoreError::Allow => " While the store is unreachable, everything is admitted.",
        OnStoreError::Deny => " While the store is unreachable, every check is an error.",
        _ => "",
    });
    if policy.serving.on_full == OnFull::Refuse {
        opening.push_str(" A key is never forgotten for another, even if new ones find no place.");
    }
    if let Some(local_for) = policy.serving.local_for {
        opening.push_str(&format!(
            " While the store is unreachable, each node serves its share for {}; then every check is an error.",
            in_words(local_for)
        ));
    }
    if !policy.factor.is_zero() && !policy.factor.is_one() {
        opening.push_str(&format!(
            " Its limits are those of the file, scaled by factor {}.",
            policy.factor
        ));
    }
    if !policy.scope.rollout().is_everybody() {
        let share = percent(policy.scope.rollout());
        opening.push_str(&format!(
            " Rolled out to {share} of keys; for the others it runs in shadow: it reports and never refuses."
        ));
    }
    if policy.policy().is_shadow() {
        opening.push_str(" In shadow: it reports and never refuses.");
    }
    opening
}

/// A sentence: which requests, and what happens to them.
#[must_use]
pub fn describe_rule(rule: &RuleConfig, policies: &[PolicyConfig]) -> String {
    let entries: Vec<String> = rule
        .descriptor
        .iter()
        .map(|entry| match &entry.value {
            Pattern::Any => format!("any `{}`", entry.key),
            Pattern::Exact(value) => format!("`{}` {value:?}", entry.key),
            Pattern::Prefix(prefix) => format!("`{}` beginning with {prefix:?}", entry.key),
        })
        .collect();
    let which = match rule.matches {
        RuleMatch::Exact => format!("descriptors of {}", entries.join(", then ")),
        RuleMatch::Contains if entries.is_empty() => "all requests".to_owned(),
        RuleMatch::Contains => format!("descriptors that contain {}", entries.join(" and ")),
    };
    let descriptors = format!("rule {}: {which}", rule.domain);
    let what = match &rule.then {
        Then::Unlimited => "are not limited.".to_owned(),
        Then::Refuse => "are always refused.".to_owned(),
        Then::Policy(name) => {
            format!("go to policy {name}, {}.", one_for_each(&budgets(rule, name, policies)))
        }
    };
    let name = rule.name.as_ref().map_or_else(String::new, |name| format!(" Its name is {name}."));
    let replaces = if rule.replaces.is_empty() {
        String::new()
    } else {
        let names = rule.replaces.join(" and ");
        format!(" If it matches, {names} does not apply.")
    };
    let unit = rule.unit.as_ref().map_or_else(String::new, |unit| format!(" Hits are {unit}."));
    let charge = match rule.charge {
        RuleCharge::Check => "",
        RuleCharge::Debit => " Hits are charged whatever is left, into debt if necessary.",
        RuleCharge::Count => " Each is counted on its own, refused or not.",
    };
    format!("{descriptors} {what}{unit}{charge}{name}{replaces}")
}

fn one_for_each(names: &[&str]) -> String {
    match names {
        [] => "with one budget for all of them".to_owned(),
        names => format!("one budget for each {}", names.join(" and ")),
    }
}

/// The entries that form the key: each combination of their values has its own budget.
#[must_use]
pub fn budgets<'a>(
    rule: &'a RuleConfig,
    policy: &str,
    policies: &'a [PolicyConfig],
) -> Vec<&'a str> {
    let own = policies.iter().find(|config| config.name() == policy).map(|config| &config.key);
    match (own, &rule.key) {
        (Some(own), _) if !own.is_empty() => own.iter().map(String::as_str).collect(),
        (_, Some(key)) => key.iter().map(String::as_str).collect(),
        (_, None) => rule.descriptor.iter().map(|entry| entry.key.as_str()).collect(),
    }
}
