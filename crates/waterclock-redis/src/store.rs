use std::time::Duration;

use tokio::time::Instant;
use waterclock::{
    Answer, Charge, Cost, Decision, Failure, Fallback, Hold, KeptChange, KeptChanges, KeyOverride,
    Migration, OverridePage, Policy, Reserved, Serving, Settled, Settlement, Source, Store,
    StoreError, Timestamp, Verb,
};

use crate::builder::RedisStoreBuilder;
use crate::direct::{Direct, PATIENT};

/// A [`Store`] on Redis or Valkey, shared by any number of processes. Cheap to clone.
///
/// Every check is one script call on the server that holds the key, in one round trip, by that server's clock; it
/// decides as [`MemoryStore`](waterclock::MemoryStore) would. While Redis is unreachable, each policy's
/// [`OnStoreError`](waterclock::OnStoreError) decides, as [`Fallback`] describes.
#[derive(Clone, Debug)]
pub struct RedisStore {
    store: Fallback<Direct>,
}

impl RedisStore {
    /// Connects to `redis://`, `rediss://`, `redis-cluster://` or `redis-sentinel://…/service`.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder(url).connect().await
    }

    /// Settings for a store at an address.
    #[must_use]
    pub fn builder(url: &str) -> RedisStoreBuilder {
        RedisStoreBuilder::new(url)
    }

    pub(crate) fn new(settings: RedisStoreBuilder) -> Result<Self, StoreError> {
        let (nodes, serving) = (settings.nodes, settings.serving);
        // Each server has a breaker of its own: one that fails does not stop calls to the others.
        let store = Fallback::builder(Direct::new(settings)?).nodes(nodes).serving(serving);
        Ok(Self { store: store.without_breaker().build()? })
    }

    /// As [`Store::apply`], at an instant of a trace instead of the server's, and without a fallback: for rehearsals,
    /// on a prefix of their own. Such a call may take 5 s.
    pub async fn apply_at(
        &self,
        now: Timestamp,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        self.store.store().apply_by(Some(now), verb, charges, Instant::now() + PATIENT).await
    }

    /// As [`Store::reserve`], at an instant of a trace: see [`RedisStore::apply_at`].
    pub async fn reserve_at(
        &self,
        now: Timestamp,
        hold: &Hold<'_>,
    ) -> Result<Reserved, StoreError> {
        self.store.store().reserve_by(Some(now), hold, Instant::now() + PATIENT).await
    }

    /// As [`Store::settle`], at an instant of a trace: see [`RedisStore::apply_at`].
    pub async fn settle_at(
        &self,
        now: Timestamp,
        id: &str,
        with: Settlement<'_>,
    ) -> Result<Settled, StoreError> {
        self.store.store().settle_by(Some(now), id, with, Instant::now() + PATIENT).await
    }

    /// What needs no call of Redis: a check of a key that this node has leased units of.
    fn apply_at_once(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Option<Result<Vec<Answer>, StoreError>> {
        let [charge] = charges else { return None };
        let answer = self.store.apply_one_now(verb, charge)?;
        Some(answer.map(|answer| vec![answer]))
    }

    /// Removes every record under the prefix, from every server.
    pub async fn clear(&self) -> Result<(), StoreError> {
        self.store.store().clear().await
    }
}

impl Store for RedisStore {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.store.set_policy(policy).await
    }

    async fn set_policy_as(&self, policy: Policy, serving: Serving) -> Result<(), StoreError> {
        self.store.set_policy_as(policy, serving).await
    }

    async fn set_variant(
        &self,
        of: &str,
        policy: Policy,
        migration: Migration,
    ) -> Result<(), StoreError> {
        self.store.set_variant(of, policy, migration).await
    }

    async fn remove_policy(&self, name: &str) -> Result<(), StoreError> {
        self.store.remove_policy(name).await
    }

    async fn set_override(&self, policy: &str, new: &KeyOverride) -> Result<(), StoreError> {
        self.store.set_override(policy, new).await
    }

    async fn clear_override(&self, policy: &str, key: &[u8]) -> Result<bool, StoreError> {
        self.store.clear_override(policy, key).await
    }

    async fn override_of(
        &self,
        policy: &str,
        key: &[u8],
    ) -> Result<Option<KeyOverride>, StoreError> {
        self.store.override_of(policy, key).await
    }

    async fn overrides(
        &self,
        policy: &str,
        after: Option<&str>,
        count: usize,
    ) -> Result<OverridePage, StoreError> {
        self.store.overrides(policy, after, count).await
    }

    #[inline]
    fn apply_one_now(&self, verb: Verb, charge: &Charge<'_>) -> Option<Result<Answer, StoreError>> {
        self.store.apply_one_now(verb, charge)
    }

    #[inline]
    fn decide_now(&self, charge: &Charge<'_>) -> Option<Result<(Decision, Source), StoreError>> {
        self.store.decide_now(charge)
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        if let Some(answers) = self.apply_at_once(verb, charges) {
            return answers;
        }
        // Boxed: a future that waits for a network is large, and callers would carry it along.
        Box::pin(self.store.apply(verb, charges)).await
    }

    async fn apply_within(
        &self,
        patience: Duration,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        if let Some(answers) = self.apply_at_once(verb, charges) {
            return answers;
        }
        Box::pin(self.store.apply_within(patience, verb, charges)).await
    }

    async fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        Box::pin(self.store.reserve(hold)).await
    }

    async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        Box::pin(self.store.settle(id, with)).await
    }

    async fn fill(&self, policy: &Policy, charge: &Charge<'_>) -> Result<Cost, StoreError> {
        Box::pin(self.store.fill(policy, charge)).await
    }

    async fn keep_policy(&self, name: &str, text: &str) -> Result<KeptChange, StoreError> {
        self.store.keep_policy(name, text).await
    }

    async fn drop_kept_policy(&self, name: &str) -> Result<KeptChange, StoreError> {
        self.store.drop_kept_policy(name).await
    }

    async fn kept_policies(&self, since: u64) -> Result<KeptChanges, StoreError> {
        self.store.kept_policies(since).await
    }

    async fn probe(&self) -> Result<Vec<String>, StoreError> {
        self.store.probe().await
    }

    fn is_degraded(&self) -> bool {
        self.store.is_degraded()
    }

    fn failures(&self) -> Vec<(Failure, u64)> {
        self.store.failures()
    }

    fn nodes_alive(&self) -> Option<u64> {
        self.store.nodes_alive()
    }

    /// Returns this node's leases, and takes it out of the count of nodes. Units that are not returned stay charged.
    async fn close(&self) {
        self.store.close().await;
    }
}
