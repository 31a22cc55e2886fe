//! What rehearsals ask a policy's lists and overrides.

use std::sync::Arc;

use waterclock::{Action, Answer, Cost, Origin, Policy, Scope, Subject};
use waterclock_config::PolicyConfig;

/// The lists and overrides of one policy.
pub struct Particular(Scope);

/// What the configuration says about a key.
#[derive(Clone, Debug, Default)]
pub enum Standing {
    /// Nothing in particular.
    #[default]
    Limited,
    /// Always refused.
    Blocked,
    /// Never refused.
    Exempt,
    /// Its own limits.
    Override(Arc<Policy>),
}

impl Particular {
    /// The lists and overrides of a configuration.
    pub fn new(config: &PolicyConfig) -> Result<Particular, String> {
        Ok(Particular(config.scope.clone()))
    }

    /// What applies to a key.
    #[must_use]
    pub fn standing_of(&self, key: &[u8]) -> Standing {
        let found = self.0.resolve(&Subject::new(key).with_address(self.0.address_in(key)));
        match (found.action, found.origin) {
            (Action::Block, _) => Standing::Blocked,
            (Action::Exempt, _) => Standing::Exempt,
            (_, Origin::Key) => Standing::Override(Arc::clone(found.policy)),
            _ => Standing::Limited,
        }
    }

    /// The policies of overrides and tiers.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.0.variants()
    }
}

impl Standing {
    /// The answer, where it takes no store.
    #[must_use]
    pub fn answer(&self, policy: &Policy, cost: &Cost) -> Option<Answer> {
        let scope = Scope::new(policy.clone());
        let scope = match self {
            Standing::Blocked => scope.with_block([""]),
            Standing::Exempt => scope.with_exempt([""]),
            Standing::Limited | Standing::Override(_) => return None,
        };
        scope.resolve(&Subject::new(b"")).answer(cost)
    }
}
