//! Overrides of single keys that administrators set while the server runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use waterclock::Limit;
use waterclock::{Action, Origin, Override, StoreError};

use super::{ActivePolicy, Engine, Key};

/// How many there may be, of all policies together.
const MAX_OVERRIDES: usize = 10_000;

/// An override as an administrator asks for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NewOverride {
    /// Always refuse the key.
    Block,
    /// Never refuse the key.
    Exempt,
    /// Give the key its own limits.
    Limits(Vec<Limit>),
}

type PolicyAndKey = (Box<str>, Box<[u8]>);

/// The overrides of every policy. They last until they are cleared or the server stops.
#[derive(Debug, Default)]
pub struct Overrides {
    by_key: RwLock<HashMap<PolicyAndKey, Override>>,
    /// Read without the lock, because mostly there are none.
    count: AtomicUsize,
}

impl Overrides {
    /// The override of a key, if there is one.
    #[must_use]
    #[inline]
    pub fn get(&self, policy: &str, key: &Key<'_>) -> Option<Override> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.by_key.read().get(&(policy.into(), key.bytes().into())).cloned()
    }

    /// Sets an override, or replaces the one there is. Returns `false` if there are too many.
    #[must_use]
    pub fn set(&self, policy: &str, key: &Key<'_>, new: Override) -> bool {
        let mut by_key = self.by_key.write();
        let entry = (policy.into(), key.bytes().into());
        if by_key.len() >= MAX_OVERRIDES && !by_key.contains_key(&entry) {
            return false;
        }
        by_key.insert(entry, new);
        self.count.store(by_key.len(), Ordering::Release);
        true
    }

    fn has_room_for(&self, policy: &str, key: &Key<'_>) -> bool {
        let by_key = self.by_key.read();
        by_key.len() < MAX_OVERRIDES || by_key.contains_key(&(policy.into(), key.bytes().into()))
    }

    fn clear(&self, policy: &str, key: &Key<'_>) -> Option<Override> {
        let mut by_key = self.by_key.write();
        let cleared = by_key.remove(&(policy.into(), key.bytes().into()));
        self.count.store(by_key.len(), Ordering::Release);
        cleared
    }

    /// Clears all overrides of a policy that was removed.
    pub(super) fn clear_policy(&self, policy: &str) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut by_key = self.by_key.write();
        by_key.retain(|(of_policy, _), _| **of_policy != *policy);
        self.count.store(by_key.len(), Ordering::Release);
    }
}

impl Engine {
    /// Overrides a key. Returns `false` if there are too many overrides already.
    pub async fn set_override(
        &self,
        policy: &ActivePolicy,
        key: &Key<'_>,
        new: NewOverride,
    ) -> Result<bool, StoreError> {
        let _one_at_a_time = self.changing.lock().await;
        let new = match new {
            NewOverride::Block => Override::Block,
            NewOverride::Exempt => Override::Exempt,
            NewOverride::Limits(limits) => {
                if !self.overrides.has_room_for(policy.name(), key) {
                    return Ok(false);
                }
                let limits = policy.with_limits(key, &limits, &self.store).await?;
                let is_set = self.overrides.set(policy.name(), key, Override::Limits(limits));
                self.nudge(policy, key);
                return Ok(is_set);
            }
        };
        self.remove_override(policy, key).await;
        let is_set = self.overrides.set(policy.name(), key, new);
        self.nudge(policy, key);
        Ok(is_set)
    }

    /// Clears the override of a key, if there is one.
    pub async fn clear_override(&self, policy: &ActivePolicy, key: &Key<'_>) {
        let _one_at_a_time = self.changing.lock().await;
        self.remove_override(policy, key).await;
        self.nudge(policy, key);
    }

    /// Which kind of override applies to a key, set at run time or by the configuration: `block`, `exempt` or
    /// `override`.
    #[must_use]
    pub fn override_kind(&self, policy: &ActivePolicy, key: &Key<'_>) -> Option<&'static str> {
        let runtime = self.overrides.get(policy.name(), key);
        let subject = key.subject().with_override(runtime.as_ref());
        let resolution = policy.scope().resolve(&subject);
        match resolution.action {
            Action::Block => Some("block"),
            Action::Exempt => Some("exempt"),
            _ if resolution.origin == Origin::Key => Some("override"),
            _ => None,
        }
    }

    async fn remove_override(&self, policy: &ActivePolicy, key: &Key<'_>) {
        let cleared = self.overrides.clear(policy.name(), key);
        if let Some(Override::Limits(limits)) = cleared {
            self.remove_policy(limits.name()).await;
        }
    }
}
