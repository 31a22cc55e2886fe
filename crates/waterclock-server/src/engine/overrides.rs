//! Overrides of single keys, which the store keeps.

use waterclock::{Action, KeyOverride, Origin, Override, OverridePage, Store as _, StoreError};

use super::{ActivePolicy, Engine, Key};

impl Engine {
    /// Sets what applies to a key instead of the policy's limits.
    pub async fn set_override(
        &self,
        policy: &ActivePolicy,
        new: &KeyOverride,
    ) -> Result<(), StoreError> {
        let set = self.timed(self.store.set_override(policy.name(), new)).await;
        self.lines.nudge(policy.name(), &new.key);
        set
    }

    /// Clears the override of a key; whether it had one.
    pub async fn clear_override(
        &self,
        policy: &ActivePolicy,
        key: &Key<'_>,
    ) -> Result<bool, StoreError> {
        self.clear_override_of(policy, key.bytes()).await
    }

    /// The same for a key as the store knows it.
    pub(crate) async fn clear_override_of(
        &self,
        policy: &ActivePolicy,
        key: &[u8],
    ) -> Result<bool, StoreError> {
        let cleared = self.timed(self.store.clear_override(policy.name(), key)).await;
        self.lines.nudge(policy.name(), key);
        cleared
    }

    /// The override of a key, if it has one.
    pub async fn override_of(
        &self,
        policy: &ActivePolicy,
        key: &Key<'_>,
    ) -> Result<Option<KeyOverride>, StoreError> {
        if let Some(memory) = &self.memory
            && !memory.has_override(policy.name(), key.bytes())
        {
            return Ok(None);
        }
        self.timed(self.store.override_of(policy.name(), key.bytes())).await
    }

    /// Some overrides of a policy.
    pub async fn overrides(
        &self,
        policy: &ActivePolicy,
        after: Option<&str>,
        count: usize,
    ) -> Result<OverridePage, StoreError> {
        self.timed(self.store.overrides(policy.name(), after, count)).await
    }

    /// Which kind of override applies to a key, of the store or of the configuration: `block`, `exempt` or
    /// `override`. `kept` is the one of the store.
    pub(crate) fn override_kind(
        policy: &ActivePolicy,
        key: &Key<'_>,
        kept: Option<&KeyOverride>,
    ) -> Option<&'static str> {
        let resolution = policy.scope().resolve(&key.subject());
        match (resolution.action, kept.map(|kept| &kept.rule)) {
            (Action::Block, _) | (_, Some(Override::Block)) => Some("block"),
            (Action::Exempt, _) | (_, Some(Override::Exempt)) => Some("exempt"),
            (_, Some(_)) => Some("override"),
            _ if resolution.origin == Origin::Key => Some("override"),
            _ => None,
        }
    }
}
