//! The store of this server: in memory or on Redis.

use std::collections::HashMap;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use tracing::warn;
use waterclock::{
    Answer, Charge, Clock, Crossing, Failure, Hold, MemoryStore, Policy, Reserved, Settled,
    Settlement, Store, StoreError, TscClock, Verb,
};
use waterclock_redis::{Lease, OnStoreError, RedisStore, Serving};

use super::served::Served;
use crate::observe::Metrics;
use crate::redis_store::redis_store;
use crate::snapshot;
use waterclock_config::{Address, Invalid, PolicyConfig, StoreConfig};

/// Where state lives.
pub enum Place {
    /// In this process.
    Memory(MemoryStore<TscClock>),
    /// On Redis, shared with other nodes.
    Redis(RedisStore),
}

impl Place {
    pub(super) fn open(spec: &StoreConfig) -> Result<Place, Invalid> {
        match spec.address()? {
            Address::Memory => {
                let max_keys = usize::try_from(spec.max_keys).unwrap_or(usize::MAX);
                Ok(Place::Memory(MemoryStore::new(max_keys, TscClock::default())))
            }
            Address::Redis(url) => redis_store(spec, &url)?
                .start()
                .map(Place::Redis)
                .map_err(|error| Invalid::from(error.to_string())),
        }
    }

    /// Says what an operator should know about the servers of a shared store. One that can never decide
    /// is refused; one that does not answer may yet.
    pub(super) async fn greet(&self) -> Result<(), Invalid> {
        let Place::Redis(store) = self else { return Ok(()) };
        match boxed(store.greet()).await {
            Ok(warnings) => warnings.iter().for_each(|warning| warn!("{warning}")),
            Err(error) if error.failure() == Some(Failure::Version) => {
                return Err(Invalid::from(error.to_string()));
            }
            Err(error) => warn!("policies say who decides for now: {error}"),
        }
        Ok(())
    }

    /// How often the store failed so far, by kind.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (Failure, u64)> {
        let store = if let Place::Redis(store) = self { Some(store) } else { None };
        store.into_iter().flat_map(RedisStore::failures)
    }

    /// As configurations spell it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Place::Memory(_) => "memory",
            Place::Redis(_) => "redis",
        }
    }

    /// Whether something stands in for the store at the moment.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        match self {
            Place::Memory(_) => false,
            Place::Redis(store) => store.is_degraded(),
        }
    }

    /// How many keys of a policy are remembered; a shared store does not tell.
    pub(super) fn keys_of(&self, policy: &str) -> usize {
        match self {
            Place::Memory(store) => store.len_of(policy),
            Place::Redis(_) => 0,
        }
    }

    /// How many reservations under each policy are not settled yet; a shared store does not tell.
    pub(super) fn reservations(&self) -> HashMap<String, usize> {
        match self {
            Place::Memory(store) => store.reservations(),
            Place::Redis(_) => HashMap::new(),
        }
    }

    /// How many charges were made to keys that found no place.
    pub(crate) fn overflowed(&self) -> u64 {
        match self {
            Place::Memory(store) => store.overflowed(),
            Place::Redis(_) => 0,
        }
    }

    pub(super) async fn set(&self, served: &Served) -> Result<(), StoreError> {
        let policy = Policy::clone(&served.policy());
        match self {
            Place::Memory(store) => store.set_policy(policy).await?,
            Place::Redis(store) => {
                boxed(store.set_policy_as(policy, serving(served.spec()))).await?;
            }
        }
        for policy in served.variants() {
            self.set_variant(served.name(), Policy::clone(policy), Crossing::Units).await?;
        }
        // Another server may hold something under it that is settled here. Where there is no room for it,
        // whoever asks for it hears of that.
        if !served.spec().rollout.is_everybody() {
            _ = served.in_shadow(&served.policy(), self).await;
        }
        Ok(())
    }

    /// One more policy that shares its keys with another.
    pub(super) async fn set_variant(
        &self,
        of: &str,
        policy: Policy,
        crossing: Crossing,
    ) -> Result<(), StoreError> {
        match self {
            Place::Memory(store) => store.set_variant(of, policy, crossing).await,
            Place::Redis(store) => boxed(store.set_variant(of, policy, crossing)).await,
        }
    }

    /// A policy that no file speaks of.
    pub(super) async fn set_plain(&self, policy: Policy) -> Result<(), StoreError> {
        match self {
            Place::Memory(store) => store.set_policy(policy).await,
            Place::Redis(store) => boxed(store.set_policy(policy)).await,
        }
    }

    /// Forgets the limits of single keys and tiers that the new configuration does not have any more.
    pub(super) async fn remove_variants(&self, old: &Served, new: &Served) {
        for policy in old.variants() {
            if new.variants().all(|other| other.name() != policy.name()) {
                self.remove(policy.name()).await;
            }
        }
    }

    /// Forgets a policy and its keys.
    pub(crate) async fn remove(&self, policy: &str) {
        let removed = match self {
            Place::Memory(store) => store.remove_policy(policy).await,
            Place::Redis(store) => boxed(store.remove_policy(policy)).await,
        };
        if let Err(error) = removed {
            warn!(policy, "the policy stays in the store: {error}");
        }
    }

    /// Writes down what is remembered in memory, in the place of what was written before.
    pub(crate) fn save(&self, path: &Path) {
        if let Place::Memory(store) = self {
            snapshot::save(store, path);
        }
    }

    /// Goes on from what was written down.
    pub(super) fn restore(&self, path: &Path) {
        if let Place::Memory(store) = self {
            snapshot::restore(store, path);
        }
    }

    /// Gives back what is held of a shared store.
    pub(crate) async fn close(&self) {
        if let Place::Redis(store) = self {
            boxed(store.return_leases()).await;
        }
    }

    pub(super) async fn apply(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
        metrics: &Metrics,
    ) -> Result<Vec<Answer>, StoreError> {
        self.apply_within(None, verb, charges, metrics).await
    }

    /// The same for a caller who waits less long than the store is given otherwise.
    pub(super) async fn apply_within(
        &self,
        patience: Option<Duration>,
        verb: Verb,
        charges: &[Charge<'_>],
        metrics: &Metrics,
    ) -> Result<Vec<Answer>, StoreError> {
        match self {
            Place::Memory(store) => store.apply(verb, charges).await,
            Place::Redis(store) => {
                let started = metrics.clock().now();
                let answers = match patience {
                    Some(patience) => boxed(store.apply_within(patience, verb, charges)).await,
                    None => boxed(store.apply(verb, charges)).await,
                };
                metrics.store_took(started);
                answers
            }
        }
    }
}

impl Place {
    pub(super) async fn reserve(
        &self,
        hold: &Hold<'_>,
        metrics: &Metrics,
    ) -> Result<Reserved, StoreError> {
        match self {
            Place::Memory(store) => store.reserve(hold).await,
            Place::Redis(store) => {
                let started = metrics.clock().now();
                let reserved = boxed(store.reserve(hold)).await;
                metrics.store_took(started);
                reserved
            }
        }
    }

    pub(super) async fn settle(
        &self,
        id: &str,
        with: Settlement<'_>,
        metrics: &Metrics,
    ) -> Result<Settled, StoreError> {
        match self {
            Place::Memory(store) => store.settle(id, with).await,
            Place::Redis(store) => {
                let started = metrics.clock().now();
                let settled = boxed(store.settle(id, with)).await;
                metrics.store_took(started);
                settled
            }
        }
    }
}

/// What waits for a network is large; those who decide in memory should not carry it along.
fn boxed<'a, T>(
    future: impl Future<Output = T> + Send + 'a,
) -> Pin<Box<dyn Future<Output = T> + Send + 'a>> {
    Box::pin(future)
}

fn serving(spec: &PolicyConfig) -> Serving {
    let on_store_error = OnStoreError::parse(spec.on_store_error).unwrap_or_default();
    let lease = spec.lease.map(|(size, ttl)| Lease { size, ttl: ttl.duration() });
    Serving { on_store_error, lease }
}
