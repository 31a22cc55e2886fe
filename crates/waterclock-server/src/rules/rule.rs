//! One rule, ready to be applied.

use std::borrow::Cow;
use std::sync::Arc;

use super::Entry;
use crate::engine::{ActivePolicy, BadKey, Key, TIER};
use waterclock_config::{RuleConfig, Then};

/// What goes for the descriptors that a rule matches.
pub struct Rule {
    effect: Effect,
    /// The entries whose values share a budget; all of them if it does not say.
    key: Option<Vec<Box<str>>>,
    name: Option<Box<str>>,
    replaces: Vec<Box<str>>,
}

/// What a rule does.
pub enum Effect {
    /// A policy decides.
    Limit(Arc<ActivePolicy>),
    /// Everything is admitted.
    Admit,
    /// Nothing is.
    Refuse,
}

impl Rule {
    pub(super) fn new(
        spec: &RuleConfig,
        policy: impl Fn(&str) -> Option<Arc<ActivePolicy>>,
    ) -> Option<Rule> {
        let boxed = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
        Some(Rule {
            effect: match &spec.then {
                Then::Policy(name) => Effect::Limit(policy(name)?),
                Then::Unlimited => Effect::Admit,
                Then::Refuse => Effect::Refuse,
            },
            key: spec.key.as_deref().map(boxed),
            name: spec.name.as_deref().map(Into::into),
            replaces: boxed(&spec.replaces),
        })
    }

    /// What it does.
    #[must_use]
    pub fn effect(&self) -> &Effect {
        &self.effect
    }

    /// What other rules call it.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The names of rules that do not apply to a request that this one applies to.
    pub fn replaces(&self) -> impl Iterator<Item = &str> {
        self.replaces.iter().map(|name| &**name)
    }

    /// What shares a budget with a descriptor that this rule has matched.
    pub fn key(
        &self,
        served: &ActivePolicy,
        domain: &str,
        descriptor: &[Entry<'_>],
    ) -> Result<Key<'static>, BadKey> {
        if !served.config().key.is_empty() {
            let field = |name: &str| {
                let entry = descriptor.iter().find(|(key, _)| *key == name);
                entry.map(|(_, value)| Cow::Borrowed(*value))
            };
            return served.key_of_fields(field);
        }
        let shares = |key: &str| {
            match &self.key {
                Some(names) => names.iter().any(|name| **name == *key),
                // Who changes tiers stays who he is.
                None => key != TIER || !served.has_tiers(),
            }
        };
        served.key_of_entries(domain, descriptor.iter().copied().filter(|(key, _)| shares(key)))
    }
}
