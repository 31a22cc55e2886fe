//! What the configuration says about single keys: who is exempt, who is blocked, who has other limits.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use waterclock::{Answer, Cost, Policy};

use super::address::read_address;
use super::key::Standing;
use super::list::List;
use super::reply::{blocked, exempt};
use waterclock_config::{PolicyConfig, policy_of};

/// The lists of one policy.
pub struct Particular {
    exempt: List,
    block: List,
    overrides: HashMap<Vec<u8>, Arc<Policy>>,
}

impl Particular {
    /// What a policy of the file says. The complaint is a sentence.
    pub fn new(spec: &PolicyConfig) -> Result<Particular, String> {
        let of_its_own = |(key, limits): &(String, Vec<_>)| {
            let name = format!("{}@key:{:x}", spec.name, Sha256::digest(key));
            let policy = policy_of(&name, limits, spec.mode, spec.shadow)?;
            Ok((key.clone().into_bytes(), Arc::new(policy)))
        };
        Ok(Particular {
            exempt: List::new(&spec.exempt),
            block: List::new(&spec.block),
            overrides: spec.overrides.iter().map(of_its_own).collect::<Result<_, String>>()?,
        })
    }

    /// What goes for a key whose address, if it has one, is all that is known of the client.
    #[must_use]
    pub fn standing_of(&self, key: &[u8]) -> Standing {
        let has_lists = !self.exempt.is_empty() || !self.block.is_empty();
        self.standing(key, if has_lists { read_address(key) } else { None })
    }

    /// Block before exempt before override.
    pub(super) fn standing(&self, key: &[u8], address: Option<IpAddr>) -> Standing {
        if self.block.holds(key, address) {
            return Standing::Blocked;
        }
        if self.exempt.holds(key, address) {
            return Standing::Exempt;
        }
        match self.overrides.get(key) {
            Some(policy) => Standing::Override(Arc::clone(policy)),
            None => Standing::Limited,
        }
    }

    /// The policies of single keys: they share their keys with the policy itself.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.overrides.values()
    }
}

impl Standing {
    /// What is said where no store has to be asked.
    #[must_use]
    pub fn answer(&self, policy: &Policy, cost: &Cost) -> Option<Answer> {
        match self {
            Standing::Blocked => Some(blocked(policy, cost)),
            Standing::Exempt => Some(exempt(policy, cost)),
            Standing::Limited | Standing::Override(_) => None,
        }
    }
}
