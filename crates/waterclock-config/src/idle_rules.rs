//! Rules that are valid and yet do nothing, or nothing but complain.

use std::cmp::Ordering;

use super::pattern::Pattern;
use super::rules::{RuleConfig, Then};
use super::spec::PolicyConfig;

/// One sentence each.
pub(crate) fn oddities(rules: &[RuleConfig], policies: &[PolicyConfig]) -> Vec<String> {
    let mut oddities = Vec::new();
    for rule in rules {
        if let Some(other) = rules.iter().find(|other| is_always_before(other, rule)) {
            oddities.push(format!(
                "rule {rule} can never match: {other} is more specific and matches all that it would"
            ));
        }
        let is_held = |policy: &&PolicyConfig| {
            rule.then == Then::Policy(policy.name.clone()) && policy.built.reserves_only()
        };
        if let Some(policy) = policies.iter().find(is_held) {
            oddities.push(format!(
                "rule {rule} decides nothing: policy `{}` has a concurrency limit, which only a reservation can hold",
                policy.name
            ));
        }
        for name in &rule.replaces {
            if rules.iter().all(|other| other.name.as_ref() != Some(name)) {
                oddities.push(format!("rule {rule} replaces `{name}`, which no rule is named"));
            }
        }
        for entry in &rule.descriptor {
            if let Pattern::Exact(text) = &entry.value
                && text.contains('*')
            {
                oddities.push(format!(
                    "rule {rule}: the `*` in {text:?} stands for itself; only one at the end is a wildcard"
                ));
            }
        }
    }
    oddities
}

/// Whether `first` matches whatever `second` would, and goes before it.
fn is_always_before(first: &RuleConfig, second: &RuleConfig) -> bool {
    if first.domain != second.domain || first.descriptor.len() != second.descriptor.len() {
        return false;
    }
    let pairs = || first.descriptor.iter().zip(&second.descriptor);
    let covers = pairs().all(|(a, b)| a.key == b.key && a.value.covers(&b.value));
    let difference =
        pairs().map(|(a, b)| a.value.specificity(&b.value)).find(|order| order.is_ne());
    covers && difference == Some(Ordering::Greater)
}
