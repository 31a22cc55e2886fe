//! The configuration in force, and its replacement by a reload.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use waterclock_config::{Config, Invalid, did_you_mean};

use super::{ActivePolicy, Engine};
use crate::observe::Metrics;
use crate::rules::Rules;

/// Everything that a reload replaces, whole.
pub struct Plan {
    policies: HashMap<Box<str>, Arc<ActivePolicy>>,
    rules: Rules,
}

impl Plan {
    pub(super) fn empty() -> Plan {
        Plan { policies: HashMap::new(), rules: Rules::default() }
    }

    pub(super) fn new(config: &Config, metrics: &Metrics) -> Result<Plan, Invalid> {
        let mut policies = HashMap::new();
        for policy in &config.policies {
            let active = ActivePolicy::new(policy.clone(), metrics.tally(policy.name()));
            policies.insert(policy.name().into(), Arc::new(active));
        }
        let rules = Rules::new(&config.rules, |name| policies.get(name).cloned());
        Ok(Plan { policies, rules })
    }

    /// The policy of this name.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<&Arc<ActivePolicy>> {
        self.policies.get(name)
    }

    /// The policy of this name, or an error that suggests another.
    pub fn find(&self, name: &str) -> Result<&Arc<ActivePolicy>, UnknownPolicy> {
        self.policy(name).ok_or_else(|| {
            let name: String = name.chars().take(64).collect();
            let hint = did_you_mean(&name, self.policies.keys().map(|name| &**name));
            UnknownPolicy { name, hint }
        })
    }

    /// All policies, in no particular order.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<ActivePolicy>> {
        self.policies.values()
    }

    /// Which descriptors get which policy.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}

/// There is no policy of this name. Displays as a sentence that suggests another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy {
    name: String,
    hint: String,
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no policy `{}`{}", self.name, self.hint)
    }
}

impl std::error::Error for UnknownPolicy {}

impl Engine {
    /// The plan of a new configuration. Takes long if it has many policies.
    pub(crate) fn prepare(&self, config: &Config) -> Result<Plan, Invalid> {
        Plan::new(config, &self.metrics)
    }

    /// Replaces the configuration, whole or not at all. What was spent stays spent.
    ///
    /// Gives the store the policies that changed, swaps the plan, then removes what is gone: no request is sent to
    /// a policy that the store does not know.
    pub(crate) async fn activate(&self, plan: Plan) -> Result<(), Invalid> {
        let before = self.plan.load_full();
        let mut changed = Vec::new();
        for policy in plan.policies() {
            let old = before.policy(policy.name());
            if old.is_some_and(|old| old.decides_like(policy)) {
                continue;
            }
            changed.push(policy);
            if let Err(error) = self.set_policy(policy).await {
                self.roll_back(&before, &changed).await;
                return Err(Invalid::from(error.to_string()));
            }
        }
        let changed: Vec<Arc<ActivePolicy>> = changed.into_iter().cloned().collect();
        let gone: Vec<String> = before
            .policies()
            .filter(|old| plan.policy(old.name()).is_none())
            .map(|old| old.name().to_owned())
            .collect();
        self.plan.store(Arc::new(plan));
        for policy in changed {
            if let Some(old) = before.policy(policy.name()) {
                self.remove_old_variants(old, &policy).await;
            }
        }
        for name in gone {
            self.overrides.clear_policy(&name);
            self.refused.forget(&name);
            self.remove_policy(&name).await;
        }
        Ok(())
    }

    async fn roll_back(&self, before: &Plan, changed: &[&Arc<ActivePolicy>]) {
        for policy in changed {
            match before.policy(policy.name()) {
                Some(old) => _ = self.set_policy(old).await,
                None => self.remove_policy(policy.name()).await,
            }
        }
    }
}
