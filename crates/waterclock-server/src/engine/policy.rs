//! A policy of the configuration that is in force.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use waterclock::{
    Detail, DynStore, HeaderStyle, Jitter, Limit, Migration, Policy, Scope, Store, StoreError,
};
use waterclock_config::PolicyConfig;

use crate::observe::Tally;

/// The most different rates that calls of one policy can bring. Calls with more are decided by the policy's own.
const MAX_RATES: usize = 1_000;

/// The field of a request, or the entry of a descriptor, that picks a tier.
pub const TIER: &str = "tier";

/// Units per period, in place of those of a policy's first limit for one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Units per period.
    pub limit: u64,
    /// The period.
    pub per: Duration,
}

/// A policy with its whole configuration.
pub struct ActivePolicy {
    config: PolicyConfig,
    /// Variants with rates that came with calls.
    by_rate: RwLock<HashMap<Rate, Arc<Policy>>>,
    /// Variants in shadow by the policy's name, for reservations of keys that are not enrolled.
    shadows: RwLock<HashMap<Box<str>, Arc<Policy>>>,
    tally: Tally,
}

impl ActivePolicy {
    pub(crate) fn new(config: PolicyConfig, tally: Tally) -> ActivePolicy {
        ActivePolicy { by_rate: RwLock::default(), shadows: RwLock::default(), config, tally }
    }

    /// The name that callers use.
    #[must_use]
    pub fn name(&self) -> &str {
        self.config.name()
    }

    /// The policy's configuration.
    #[must_use]
    pub fn config(&self) -> &PolicyConfig {
        &self.config
    }

    /// Which limits apply to which keys.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.config.scope
    }

    /// The style of the response header fields.
    #[must_use]
    pub fn headers(&self) -> HeaderStyle {
        self.config.headers
    }

    /// By how much `Retry-After` is spread.
    #[must_use]
    pub fn jitter(&self) -> Jitter {
        self.config.jitter
    }

    /// The fields that form the key; none if the caller passes the key itself.
    pub(super) fn key_fields(&self) -> &[String] {
        &self.config.key
    }

    /// Whether requests can name a tier.
    #[must_use]
    pub fn has_tiers(&self) -> bool {
        !self.config.tiers.is_empty()
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether both decide alike, so that the store need not be given the other.
    pub(super) fn decides_like(&self, other: &ActivePolicy) -> bool {
        let (a, b) = (&self.config, &other.config);
        let tiers = |config: &PolicyConfig| -> Vec<Arc<Policy>> {
            config.shared_tiers().map(|tier| Arc::clone(&tier.policy)).collect()
        };
        a.policy() == b.policy()
            && a.overrides == b.overrides
            && tiers(a) == tiers(b)
            && a.serving == b.serving
    }

    /// The policy with the rate of a call in place of its first limit's numbers. It shares its keys with the policy.
    pub(super) async fn with_rate(
        &self,
        rate: Rate,
        store: &DynStore,
    ) -> Result<Arc<Policy>, StoreError> {
        if let Some(policy) = self.by_rate.read().get(&rate) {
            return Ok(Arc::clone(policy));
        }
        if self.by_rate.read().len() >= MAX_RATES {
            // A proxy would admit on an error, so the policy's own limits decide.
            return Ok(Arc::clone(self.scope().policy()));
        }
        let mut limits = self.config.limits().to_vec();
        if let Some(first) = limits.first_mut() {
            let replaced = first.with_rate(rate.limit, rate.per);
            *first = replaced.map_err(|error| StoreError::unfit(Detail::of(error)))?;
        }
        let name = format!("{}@{}/{}us", self.name(), rate.limit, rate.per.as_micros());
        let policy = self.variant(&name, &limits)?;
        store.set_variant(self.name(), policy.clone(), Migration::Units).await?;
        let policy = Arc::new(policy);
        self.by_rate.write().insert(rate, Arc::clone(&policy));
        Ok(policy)
    }

    /// A policy of this scope in shadow. It shares its keys with the policy, so that a larger rollout finds what was
    /// spent.
    pub(super) async fn in_shadow(
        &self,
        policy: &Policy,
        store: &DynStore,
    ) -> Result<Arc<Policy>, StoreError> {
        if let Some(known) = self.shadows.read().get(policy.name()) {
            return Ok(Arc::clone(known));
        }
        let name = format!("{}@shadow", policy.name());
        let shadow = Policy::new(&name, policy.limits().iter().cloned())
            .and_then(|shadow| shadow.with_mode(policy.mode()))?
            .with_shadow(true);
        store.set_variant(self.name(), shadow.clone(), Migration::Units).await?;
        let shadow = Arc::new(shadow);
        self.shadows.write().insert(policy.name().into(), Arc::clone(&shadow));
        Ok(shadow)
    }

    fn variant(&self, name: &str, limits: &[Limit]) -> Result<Policy, StoreError> {
        Ok(self.config.variant(name, limits)?)
    }
}
