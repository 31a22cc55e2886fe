//! The engine's store: any [`Store`], and the memory store itself where only that can help.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use tracing::warn;
use waterclock::store::tier_variant;
use waterclock::{
    Answer, Charge, Clock, DynStore, Failure, MemoryStore, Migration, Policy, Store, StoreError,
    TscClock, Verb,
};
use waterclock_config::{Address, Invalid, StoreConfig, TierConfig};
use waterclock_redis::{RedisStore, RedisStoreBuilder};

use super::{ActivePolicy, Engine};
use crate::tls::Authorities;

/// The store that a configuration names. A memory store is also returned as itself: it decides without a future, counts
/// its keys and writes snapshots.
pub(super) fn open(
    config: &StoreConfig,
) -> Result<(DynStore, Option<MemoryStore<TscClock>>), Invalid> {
    match config.address()? {
        Address::Memory => {
            let max_keys = usize::try_from(config.max_keys).unwrap_or(usize::MAX);
            let memory = MemoryStore::new(max_keys, TscClock::default());
            memory.set_max_bytes(config.max_bytes);
            memory.set_max_overrides(usize::try_from(config.max_overrides).unwrap_or(usize::MAX));
            Ok((DynStore::new(memory.clone()), Some(memory)))
        }
        Address::Redis(url) => {
            let store = redis_store(config, &url)?.announce(true).start();
            let store = store.map_err(|error| Invalid::from(error.to_string()))?;
            Ok((DynStore::new(store), None))
        }
    }
}

/// How many servers share the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StoreNodes {
    /// As the configuration says.
    pub(crate) configured: u64,
    /// As they were last counted; none before that.
    pub(crate) alive: Option<u64>,
}

impl StoreNodes {
    /// How many there are, if those are more than the configuration says: together they then admit more than a limit
    /// while the store is unreachable.
    pub(crate) fn too_many(self) -> Option<u64> {
        self.alive.filter(|alive| *alive > self.configured)
    }
}

/// A builder for the Redis store at this URL, with every setting of `[store]`.
pub fn redis_store(config: &StoreConfig, url: &str) -> Result<RedisStoreBuilder, Invalid> {
    let builder = RedisStore::builder(url)
        .deadline(config.deadline.duration())
        .nodes(config.nodes)
        .replicas(config.replicas)
        .key_secret(&config.key_secret()?);
    Ok(match certificate_authority(config)? {
        Some(pem) => builder.root_certificate(&pem),
        None => builder,
    })
}

/// The PEM of `ca`, if the file names one.
pub(crate) fn certificate_authority(config: &StoreConfig) -> Result<Option<Vec<u8>>, Invalid> {
    let Some(path) = config.ca() else { return Ok(None) };
    let read = Authorities::read(&path);
    read.map(|read| Some(read.pem)).map_err(|error| config.ca_error(&format!("names {error}")))
}

/// Logs what an operator should know about the servers of a shared store. A server that is too old is an error; one that
/// does not answer may come back.
pub(super) async fn probe(store: &DynStore) -> Result<(), Invalid> {
    match store.probe().await {
        Ok(warnings) => warnings.iter().for_each(|warning| warn!("{warning}")),
        Err(error) if error.failure() == Some(Failure::Version) => {
            return Err(Invalid::from(error.to_string()));
        }
        Err(error) => warn!("store unreachable; applying each policy's on_store_error: {error}"),
    }
    Ok(())
}

impl Engine {
    /// The memory store, if it is one.
    #[must_use]
    #[inline]
    pub fn memory(&self) -> Option<&MemoryStore<TscClock>> {
        self.memory.as_ref()
    }

    /// The kind of store, as configurations spell it.
    #[must_use]
    pub fn store_name(&self) -> &'static str {
        if self.memory.is_some() { "memory" } else { "redis" }
    }

    /// Whether decisions fall back to each policy's `on_store_error` at the moment.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.store.is_degraded()
    }

    /// How many servers share the store. One in memory is this server's own.
    pub(crate) fn store_nodes(&self) -> StoreNodes {
        match self.memory {
            Some(_) => StoreNodes { configured: 1, alive: Some(1) },
            None => StoreNodes { configured: self.nodes, alive: self.store.nodes_alive() },
        }
    }

    /// How often the store failed so far, by kind.
    pub(crate) fn store_failures(&self) -> impl Iterator<Item = (Failure, u64)> {
        self.store.failures().into_iter()
    }

    /// How many keys of a policy are in memory; 0 for a shared store.
    pub(super) fn keys_of(&self, policy: &str) -> usize {
        self.memory().map_or(0, |store| store.len_of(policy))
    }

    /// How many reservations of each policy are open; none for a shared store.
    pub(crate) fn reservations(&self) -> HashMap<String, usize> {
        self.memory().map(MemoryStore::reservations).unwrap_or_default()
    }

    /// How many charges went to overflow entries, because no key place was free.
    pub(crate) fn overflowed(&self) -> u64 {
        self.memory().map_or(0, MemoryStore::overflowed)
    }

    /// Gives the store a policy with all its variants.
    pub(super) async fn set_policy(&self, active: &ActivePolicy) -> Result<(), StoreError> {
        let policy = Policy::clone(active.scope().policy());
        self.store.set_policy_as(policy, active.config().serving).await?;
        for variant in active.scope().variants() {
            let variant = Policy::clone(variant);
            self.store.set_variant(active.name(), variant, Migration::Units).await?;
        }
        // Overrides can name every tier; checks of these do without a variant.
        for tier in active.config().tiers.iter().filter(|tier| !tier.is_shared()) {
            let limits = tier.policy.limits().iter().cloned();
            let variant = Policy::new(&tier_variant(active.name(), &tier.name), limits)?;
            let variant = variant.with_mode(tier.policy.mode())?;
            self.store.set_variant(active.name(), variant, Migration::Units).await?;
        }
        // Another server may have made a reservation under it that is settled here. If there is no room for it,
        // the reservation itself reports that.
        if !active.scope().rollout().is_everybody() {
            _ = active.in_shadow(active.scope().policy(), &self.store).await;
        }
        Ok(())
    }

    /// Removes the variants that the new configuration of a policy does not have.
    pub(super) async fn remove_old_variants(&self, old: &ActivePolicy, new: &ActivePolicy) {
        for policy in old.scope().variants() {
            let is_tier = |tier: &TierConfig| tier_variant(new.name(), &tier.name) == policy.name();
            let stays = new.scope().variants().any(|other| other.name() == policy.name())
                || new.config().tiers.iter().any(is_tier);
            if !stays {
                self.remove_policy(policy.name()).await;
            }
        }
        for tier in old.config().tiers.iter().filter(|tier| !tier.is_shared()) {
            if new.config().tiers.iter().all(|other| other.name != tier.name) {
                self.remove_policy(&tier_variant(old.name(), &tier.name)).await;
            }
        }
    }

    /// Removes a policy and its keys from the store.
    pub(super) async fn remove_policy(&self, policy: &str) {
        if let Err(error) = self.store.remove_policy(policy).await {
            warn!(policy, "cannot remove the policy from the store: {error}");
        }
    }

    /// Applies charges atomically, within the caller's deadline if it is shorter than the store's.
    pub(super) async fn apply_charges(
        &self,
        deadline: Option<Duration>,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        // Not through `DynStore`, which would box the future.
        if let Some(memory) = &self.memory {
            return memory.apply(verb, charges).await;
        }
        match deadline {
            Some(deadline) => self.timed(self.store.apply_within(deadline, verb, charges)).await,
            None => self.timed(self.store.apply(verb, charges)).await,
        }
    }

    /// Measures a call of a shared store.
    pub(super) async fn timed<T>(&self, call: impl Future<Output = T>) -> T {
        if self.memory.is_some() {
            return call.await;
        }
        let started = self.metrics.clock().now();
        let answer = call.await;
        self.metrics.store_took(started);
        answer
    }

    /// Writes a snapshot of the memory store, if one is configured.
    pub(crate) fn save(&self) {
        if let (Some(memory), Some(snapshot)) = (&self.memory, &self.snapshot)
            && !snapshot.save(memory)
        {
            self.metrics.count_snapshot_failure();
        }
    }

    /// Writes the last snapshot, and releases its file for another server.
    pub(crate) fn save_and_release(&self) {
        if let (Some(memory), Some(snapshot)) = (&self.memory, &self.snapshot)
            && !snapshot.save_and_release(memory)
        {
            self.metrics.count_snapshot_failure();
        }
    }

    /// Returns leased units to a shared store.
    pub(crate) async fn close(&self) {
        self.store.close().await;
    }
}
