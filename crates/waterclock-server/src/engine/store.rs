//! The store of this server: in memory or on Redis.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use tracing::warn;
use waterclock::{
    Answer, Charge, Clock, DynStore, Failure, Hold, MemoryStore, Migration, Policy, Reserved,
    Settled, Settlement, Store, StoreError, Timestamp, TscClock, Verb,
};
use waterclock_config::{Address, Invalid, StoreConfig};

use super::redis::redis_store;
use super::{ActivePolicy, snapshot};
use crate::observe::Metrics;

/// The store, and what only a store in this process can do.
pub struct EngineStore {
    store: DynStore,
    /// The same store, if it is in this process: it decides without a future, and can be counted and saved.
    memory: Option<MemoryStore<TscClock>>,
}

impl EngineStore {
    pub(super) fn open(config: &StoreConfig) -> Result<EngineStore, Invalid> {
        match config.address()? {
            Address::Memory => {
                let max_keys = usize::try_from(config.max_keys).unwrap_or(usize::MAX);
                let memory = MemoryStore::new(max_keys, TscClock::default());
                Ok(EngineStore { store: DynStore::new(memory.clone()), memory: Some(memory) })
            }
            Address::Redis(url) => redis_store(config, &url)?
                .start()
                .map(|store| EngineStore { store: DynStore::new(store), memory: None })
                .map_err(|error| Invalid::from(error.to_string())),
        }
    }

    /// Logs what an operator should know about the servers of a shared store. A server that is too old is an error;
    /// one that does not answer may come back.
    pub(super) async fn probe(&self) -> Result<(), Invalid> {
        match self.store.probe().await {
            Ok(warnings) => warnings.iter().for_each(|warning| warn!("{warning}")),
            Err(error) if error.failure() == Some(Failure::Version) => {
                return Err(Invalid::from(error.to_string()));
            }
            Err(error) => {
                warn!("store unreachable; applying each policy's on_store_error: {error}");
            }
        }
        Ok(())
    }

    /// The memory store, if it is one: it decides without a future.
    #[must_use]
    #[inline]
    pub fn memory(&self) -> Option<&MemoryStore<TscClock>> {
        self.memory.as_ref()
    }

    /// How often the store failed so far, by kind.
    pub(crate) fn failures(&self) -> Vec<(Failure, u64)> {
        self.store.failures()
    }

    /// As configurations spell it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.memory.is_some() { "memory" } else { "redis" }
    }

    /// Whether decisions fall back to each policy's `on_store_error` at the moment.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.store.is_degraded()
    }

    /// How many keys of a policy are in memory; 0 for a shared store.
    pub(super) fn keys_of(&self, policy: &str) -> usize {
        self.memory().map_or(0, |store| store.len_of(policy))
    }

    /// How many reservations of each policy are open; none for a shared store.
    pub(super) fn reservations(&self) -> HashMap<String, usize> {
        self.memory().map(MemoryStore::reservations).unwrap_or_default()
    }

    /// How many charges went to overflow entries, because no key place was free.
    pub(crate) fn overflowed(&self) -> u64 {
        self.memory().map_or(0, MemoryStore::overflowed)
    }

    /// Adds or replaces a policy with all its variants.
    pub(super) async fn set(&self, active: &ActivePolicy) -> Result<(), StoreError> {
        let policy = Policy::clone(active.scope().policy());
        self.store.set_policy_as(policy, active.config().serving).await?;
        for policy in active.scope().variants() {
            self.set_variant(active.name(), Policy::clone(policy), Migration::Units).await?;
        }
        // Another server may have made a reservation under it that is settled here. If there is no room for it,
        // the reservation itself reports that.
        if !active.scope().rollout().is_everybody() {
            _ = active.in_shadow(active.scope().policy(), self).await;
        }
        Ok(())
    }

    /// Adds a policy that shares its keys with another.
    pub(super) async fn set_variant(
        &self,
        of: &str,
        policy: Policy,
        migration: Migration,
    ) -> Result<(), StoreError> {
        self.store.set_variant(of, policy, migration).await
    }

    /// Adds a policy that is not in the configuration.
    pub(super) async fn set_plain(&self, policy: Policy) -> Result<(), StoreError> {
        self.store.set_policy(policy).await
    }

    /// Removes the variants that the new configuration of a policy does not have.
    pub(super) async fn remove_old_variants(&self, old: &ActivePolicy, new: &ActivePolicy) {
        for policy in old.scope().variants() {
            if new.scope().variants().all(|other| other.name() != policy.name()) {
                self.remove(policy.name()).await;
            }
        }
    }

    /// Removes a policy and its keys.
    pub(crate) async fn remove(&self, policy: &str) {
        if let Err(error) = self.store.remove_policy(policy).await {
            warn!(policy, "cannot remove the policy from the store: {error}");
        }
    }

    /// Writes a snapshot of the memory store.
    pub(crate) fn save(&self, path: &Path) {
        if let Some(store) = self.memory() {
            snapshot::save(store, path);
        }
    }

    /// Restores a snapshot into the memory store.
    pub(super) fn restore(&self, path: &Path) {
        if let Some(store) = self.memory() {
            snapshot::restore(store, path);
        }
    }

    /// Returns leased units to a shared store.
    pub(crate) async fn close(&self) {
        self.store.close().await;
    }

    /// Applies charges atomically, within the caller's deadline if it is shorter than the store's.
    pub(super) async fn apply(
        &self,
        deadline: Option<Duration>,
        verb: Verb,
        charges: &[Charge<'_>],
        metrics: &Metrics,
    ) -> Result<Vec<Answer>, StoreError> {
        let started = self.start(metrics);
        let answers = match deadline {
            Some(deadline) => self.store.apply_within(deadline, verb, charges).await,
            None => self.store.apply(verb, charges).await,
        };
        started.into_iter().for_each(|started| metrics.store_took(started));
        answers
    }

    pub(super) async fn reserve(
        &self,
        hold: &Hold<'_>,
        metrics: &Metrics,
    ) -> Result<Reserved, StoreError> {
        let started = self.start(metrics);
        let reserved = self.store.reserve(hold).await;
        started.into_iter().for_each(|started| metrics.store_took(started));
        reserved
    }

    pub(super) async fn settle(
        &self,
        id: &str,
        with: Settlement<'_>,
        metrics: &Metrics,
    ) -> Result<Settled, StoreError> {
        let started = self.start(metrics);
        let settled = self.store.settle(id, with).await;
        started.into_iter().for_each(|started| metrics.store_took(started));
        settled
    }

    /// When a call of a shared store begins; calls in memory are not measured.
    fn start(&self, metrics: &Metrics) -> Option<Timestamp> {
        self.memory.is_none().then(|| metrics.clock().now())
    }
}
