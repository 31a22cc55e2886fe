//! The store of this server: in memory or on Redis.

use std::collections::HashMap;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use tracing::warn;
use waterclock::{
    Answer, Charge, Clock, Failure, Hold, MemoryStore, Migration, Policy, Reserved, Settled,
    Settlement, Store, StoreError, TscClock, Verb,
};
use waterclock_config::{Address, Invalid, PolicyConfig, StoreConfig};
use waterclock_redis::{Lease, OnStoreError, RedisStore, Serving};

use super::redis::redis_store;
use super::{ActivePolicy, snapshot};
use crate::observe::Metrics;

/// The store, and what only one kind of store can do.
pub struct EngineStore(Kind);

enum Kind {
    Memory(MemoryStore<TscClock>),
    Redis(RedisStore),
}

impl EngineStore {
    pub(super) fn open(config: &StoreConfig) -> Result<EngineStore, Invalid> {
        match config.address()? {
            Address::Memory => {
                let max_keys = usize::try_from(config.max_keys).unwrap_or(usize::MAX);
                Ok(EngineStore(Kind::Memory(MemoryStore::new(max_keys, TscClock::default()))))
            }
            Address::Redis(url) => redis_store(config, &url)?
                .start()
                .map(|store| EngineStore(Kind::Redis(store)))
                .map_err(|error| Invalid::from(error.to_string())),
        }
    }

    /// Logs what an operator should know about the servers of a shared store. A server that is too old is an error;
    /// one that does not answer may come back.
    pub(super) async fn probe(&self) -> Result<(), Invalid> {
        let Kind::Redis(store) = &self.0 else { return Ok(()) };
        match boxed(store.probe()).await {
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
        match &self.0 {
            Kind::Memory(store) => Some(store),
            Kind::Redis(_) => None,
        }
    }

    /// How often the store failed so far, by kind.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (Failure, u64)> {
        let store = if let Kind::Redis(store) = &self.0 { Some(store) } else { None };
        store.into_iter().flat_map(Store::failures)
    }

    /// As configurations spell it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.0 {
            Kind::Memory(_) => "memory",
            Kind::Redis(_) => "redis",
        }
    }

    /// Whether decisions fall back to each policy's `on_store_error` at the moment.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        match &self.0 {
            Kind::Memory(_) => false,
            Kind::Redis(store) => store.is_degraded(),
        }
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
        match &self.0 {
            Kind::Memory(store) => store.set_policy(policy).await?,
            Kind::Redis(store) => {
                boxed(store.set_policy_as(policy, serving(active.config()))).await?;
            }
        }
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
        match &self.0 {
            Kind::Memory(store) => store.set_variant(of, policy, migration).await,
            Kind::Redis(store) => boxed(store.set_variant(of, policy, migration)).await,
        }
    }

    /// Adds a policy that is not in the configuration.
    pub(super) async fn set_plain(&self, policy: Policy) -> Result<(), StoreError> {
        match &self.0 {
            Kind::Memory(store) => store.set_policy(policy).await,
            Kind::Redis(store) => boxed(store.set_policy(policy)).await,
        }
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
        let removed = match &self.0 {
            Kind::Memory(store) => store.remove_policy(policy).await,
            Kind::Redis(store) => boxed(store.remove_policy(policy)).await,
        };
        if let Err(error) = removed {
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
        if let Kind::Redis(store) = &self.0 {
            boxed(store.close()).await;
        }
    }

    /// Applies charges atomically, within the caller's deadline if it is shorter than the store's.
    pub(super) async fn apply(
        &self,
        deadline: Option<Duration>,
        verb: Verb,
        charges: &[Charge<'_>],
        metrics: &Metrics,
    ) -> Result<Vec<Answer>, StoreError> {
        match &self.0 {
            Kind::Memory(store) => store.apply(verb, charges).await,
            Kind::Redis(store) => match deadline {
                Some(deadline) => {
                    timed(metrics, boxed(store.apply_within(deadline, verb, charges))).await
                }
                None => timed(metrics, boxed(store.apply(verb, charges))).await,
            },
        }
    }

    pub(super) async fn reserve(
        &self,
        hold: &Hold<'_>,
        metrics: &Metrics,
    ) -> Result<Reserved, StoreError> {
        match &self.0 {
            Kind::Memory(store) => store.reserve(hold).await,
            Kind::Redis(store) => timed(metrics, boxed(store.reserve(hold))).await,
        }
    }

    pub(super) async fn settle(
        &self,
        id: &str,
        with: Settlement<'_>,
        metrics: &Metrics,
    ) -> Result<Settled, StoreError> {
        match &self.0 {
            Kind::Memory(store) => store.settle(id, with).await,
            Kind::Redis(store) => timed(metrics, boxed(store.settle(id, with))).await,
        }
    }
}

/// Measures a call of a shared store.
async fn timed<T>(metrics: &Metrics, call: impl Future<Output = T>) -> T {
    let started = metrics.clock().now();
    let answer = call.await;
    metrics.store_took(started);
    answer
}

/// Futures that wait for a network are large; those that decide in memory should not carry them.
fn boxed<'a, T>(
    future: impl Future<Output = T> + Send + 'a,
) -> Pin<Box<dyn Future<Output = T> + Send + 'a>> {
    Box::pin(future)
}

fn serving(config: &PolicyConfig) -> Serving {
    let on_store_error = OnStoreError::parse(config.on_store_error).unwrap_or_default();
    let lease = config.lease.map(|(size, ttl)| Lease { size, ttl: ttl.duration() });
    Serving { on_store_error, lease }
}
