//! A rule in plain English.

use crate::{Pattern, PolicyConfig, RuleConfig, Then};

/// A sentence: which requests, and what happens to them.
pub fn describe(rule: &RuleConfig, policies: &[PolicyConfig]) -> String {
    let entries: Vec<String> = rule
        .descriptor
        .iter()
        .map(|entry| match &entry.value {
            Pattern::Any => format!("any `{}`", entry.key),
            Pattern::Exact(value) => format!("`{}` {value:?}", entry.key),
            Pattern::Prefix(prefix) => format!("`{}` beginning with {prefix:?}", entry.key),
        })
        .collect();
    let whose = format!("rule {}: descriptors of {}", rule.domain, entries.join(", then "));
    let what = match &rule.then {
        Then::Unlimited => "are not limited.".to_owned(),
        Then::Refuse => "are always refused.".to_owned(),
        Then::Policy(name) => {
            format!("go to policy {name}, {}.", in_words(&budgets(rule, name, policies)))
        }
    };
    let name = rule.name.as_ref().map_or_else(String::new, |name| format!(" It is called {name}."));
    let replaces = if rule.replaces.is_empty() {
        String::new()
    } else {
        let names = rule.replaces.join(" and ");
        format!(" Where it applies, {names} does not.")
    };
    format!("{whose} {what}{name}{replaces}")
}

fn in_words(names: &[&str]) -> String {
    match names {
        [] => "with one budget for all of them".to_owned(),
        names => format!("one budget for each {}", names.join(" and ")),
    }
}

/// The entries whose values have budgets of their own.
pub fn budgets<'a>(
    rule: &'a RuleConfig,
    policy: &str,
    policies: &'a [PolicyConfig],
) -> Vec<&'a str> {
    let own = policies.iter().find(|spec| spec.name == policy).map(|spec| &spec.key);
    match (own, &rule.key) {
        (Some(own), _) if !own.is_empty() => own.iter().map(String::as_str).collect(),
        (_, Some(key)) => key.iter().map(String::as_str).collect(),
        (_, None) => rule.descriptor.iter().map(|entry| entry.key.as_str()).collect(),
    }
}
