//! What a configuration means while it is in force.

use std::collections::HashMap;
use std::sync::Arc;

use super::served::Served;
use crate::observe::Metrics;
use crate::rules::Rules;
use waterclock_config::{Config, Invalid, did_you_mean};

/// Everything that a reload replaces, whole.
pub struct Plan {
    policies: HashMap<Box<str>, Arc<Served>>,
    rules: Rules,
}

impl Plan {
    pub(super) fn empty() -> Plan {
        Plan { policies: HashMap::new(), rules: Rules::default() }
    }

    pub(super) fn new(config: &Config, metrics: &Metrics) -> Result<Plan, Invalid> {
        let mut policies = HashMap::new();
        for spec in &config.policies {
            let served = Served::new(spec.clone(), metrics.tally(&spec.name))
                .map_err(|reason| Invalid::from(format!("{}: {reason}", config.file)))?;
            policies.insert(spec.name.as_str().into(), Arc::new(served));
        }
        let rules = Rules::new(&config.rules, |name| policies.get(name).cloned());
        Ok(Plan { policies, rules })
    }

    /// The policy of this name.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<&Arc<Served>> {
        self.policies.get(name)
    }

    /// The policy of this name, or a sentence about its absence.
    pub fn find(&self, name: &str) -> Result<&Arc<Served>, String> {
        self.policy(name).ok_or_else(|| {
            let shown: String = name.chars().take(64).collect();
            let hint = did_you_mean(&shown, self.policies.keys().map(|name| &**name));
            format!("there is no policy `{shown}`{hint}")
        })
    }

    /// All of them, in no order.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.policies.values()
    }

    /// Which descriptors get which policy.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}
