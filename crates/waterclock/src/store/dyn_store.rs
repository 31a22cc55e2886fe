//! A store whose kind is chosen at run time.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use waterclock_core::{Cost, Decision, Policy};

use super::{
    Answer, Charge, Failure, Hold, KeptChange, KeptChanges, KeyOverride, Migration, OverridePage,
    Reserved, Settled, Settlement, Source, Store, StoreError, Verb, now_or_never,
};
use crate::fallback::Serving;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Any [`Store`], with its type erased. Cheap to clone.
///
/// A call boxes one future, unless the store [answers at once](Store::answers_at_once).
///
/// ```
/// use waterclock::{DynStore, Limit, MemoryStore, Policy, Store};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = DynStore::new(MemoryStore::default());
/// store.set_policy(Policy::new("login", [Limit::per_minute(5)])?).await?;
/// assert!(store.check("login", "alice").await?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct DynStore(Arc<dyn Erased>);

impl fmt::Debug for DynStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynStore").finish_non_exhaustive()
    }
}

impl DynStore {
    /// Erases the type of a store.
    pub fn new(store: impl Store + 'static) -> Self {
        Self(Arc::new(store))
    }
}

/// The methods of [`Store`] that stores implement, with their futures boxed; and those that decide without a future, for
/// stores that answer at once.
trait Erased: Send + Sync {
    fn apply_now(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Option<Result<Vec<Answer>, StoreError>>;
    fn apply_one_now(&self, verb: Verb, charge: &Charge<'_>) -> Option<Result<Answer, StoreError>>;
    fn decide_now(&self, charge: &Charge<'_>) -> Option<Result<(Decision, Source), StoreError>>;
    fn reserve_now(&self, hold: &Hold<'_>) -> Option<Result<Reserved, StoreError>>;
    fn settle_now(&self, id: &str, with: Settlement<'_>) -> Option<Result<Settled, StoreError>>;
    fn set_policy(&self, policy: Policy) -> Boxed<'_, ()>;
    fn set_variant<'a>(&'a self, of: &'a str, policy: Policy, by: Migration) -> Boxed<'a, ()>;
    fn remove_policy<'a>(&'a self, name: &'a str) -> Boxed<'a, ()>;
    fn remove_variants<'a>(&'a self, of: &'a str, names: &'a [&'a str]) -> Boxed<'a, ()>;
    fn set_override<'a>(&'a self, policy: &'a str, new: &'a KeyOverride) -> Boxed<'a, ()>;
    fn clear_override<'a>(&'a self, policy: &'a str, key: &'a [u8]) -> Boxed<'a, bool>;
    fn override_of<'a>(&'a self, policy: &'a str, key: &'a [u8]) -> Boxed<'a, Option<KeyOverride>>;
    fn overrides<'a>(
        &'a self,
        policy: &'a str,
        after: Option<&'a str>,
        count: usize,
    ) -> Boxed<'a, OverridePage>;
    fn apply<'a>(&'a self, verb: Verb, charges: &'a [Charge<'a>]) -> Boxed<'a, Vec<Answer>>;
    fn answers_at_once(&self) -> bool;
    fn reserve<'a>(&'a self, hold: &'a Hold<'a>) -> Boxed<'a, Reserved>;
    fn settle<'a>(&'a self, id: &'a str, with: Settlement<'a>) -> Boxed<'a, Settled>;
    fn keep_policy<'a>(&'a self, name: &'a str, text: &'a str) -> Boxed<'a, KeptChange>;
    fn drop_kept_policy<'a>(&'a self, name: &'a str) -> Boxed<'a, KeptChange>;
    fn kept_policies(&self, since: u64) -> Boxed<'_, KeptChanges>;
    fn set_policy_as(&self, policy: Policy, serving: Serving) -> Boxed<'_, ()>;
    fn apply_within<'a>(
        &'a self,
        patience: Duration,
        verb: Verb,
        charges: &'a [Charge<'a>],
    ) -> Boxed<'a, Vec<Answer>>;
    fn fill<'a>(&'a self, policy: &'a Policy, charge: &'a Charge<'a>) -> Boxed<'a, Cost>;
    fn probe(&self) -> Boxed<'_, Vec<String>>;
    fn is_degraded(&self) -> bool;
    fn failures(&self) -> Vec<(Failure, u64)>;
    fn nodes_alive(&self) -> Option<u64>;
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

impl<S: Store> Erased for S {
    fn apply_now(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Option<Result<Vec<Answer>, StoreError>> {
        if let [charge] = charges {
            let answer = Store::apply_one_now(self, verb, charge)?;
            return Some(answer.map(|answer| vec![answer]));
        }
        if Store::answers_at_once(self) {
            now_or_never(Store::apply(self, verb, charges))
        } else {
            None
        }
    }

    fn apply_one_now(&self, verb: Verb, charge: &Charge<'_>) -> Option<Result<Answer, StoreError>> {
        Store::apply_one_now(self, verb, charge)
    }

    fn decide_now(&self, charge: &Charge<'_>) -> Option<Result<(Decision, Source), StoreError>> {
        Store::decide_now(self, charge)
    }

    fn reserve_now(&self, hold: &Hold<'_>) -> Option<Result<Reserved, StoreError>> {
        if Store::answers_at_once(self) { now_or_never(Store::reserve(self, hold)) } else { None }
    }

    fn settle_now(&self, id: &str, with: Settlement<'_>) -> Option<Result<Settled, StoreError>> {
        if Store::answers_at_once(self) {
            now_or_never(Store::settle(self, id, with))
        } else {
            None
        }
    }

    fn set_policy(&self, policy: Policy) -> Boxed<'_, ()> {
        Box::pin(Store::set_policy(self, policy))
    }

    fn set_variant<'a>(&'a self, of: &'a str, policy: Policy, by: Migration) -> Boxed<'a, ()> {
        Box::pin(Store::set_variant(self, of, policy, by))
    }

    fn remove_policy<'a>(&'a self, name: &'a str) -> Boxed<'a, ()> {
        Box::pin(Store::remove_policy(self, name))
    }

    fn remove_variants<'a>(&'a self, of: &'a str, names: &'a [&'a str]) -> Boxed<'a, ()> {
        Box::pin(Store::remove_variants(self, of, names))
    }

    fn set_override<'a>(&'a self, policy: &'a str, new: &'a KeyOverride) -> Boxed<'a, ()> {
        Box::pin(Store::set_override(self, policy, new))
    }

    fn clear_override<'a>(&'a self, policy: &'a str, key: &'a [u8]) -> Boxed<'a, bool> {
        Box::pin(Store::clear_override(self, policy, key))
    }

    fn override_of<'a>(&'a self, policy: &'a str, key: &'a [u8]) -> Boxed<'a, Option<KeyOverride>> {
        Box::pin(Store::override_of(self, policy, key))
    }

    fn overrides<'a>(
        &'a self,
        policy: &'a str,
        after: Option<&'a str>,
        count: usize,
    ) -> Boxed<'a, OverridePage> {
        Box::pin(Store::overrides(self, policy, after, count))
    }

    fn apply<'a>(&'a self, verb: Verb, charges: &'a [Charge<'a>]) -> Boxed<'a, Vec<Answer>> {
        Box::pin(Store::apply(self, verb, charges))
    }

    fn answers_at_once(&self) -> bool {
        Store::answers_at_once(self)
    }

    fn reserve<'a>(&'a self, hold: &'a Hold<'a>) -> Boxed<'a, Reserved> {
        Box::pin(Store::reserve(self, hold))
    }

    fn settle<'a>(&'a self, id: &'a str, with: Settlement<'a>) -> Boxed<'a, Settled> {
        Box::pin(Store::settle(self, id, with))
    }

    fn keep_policy<'a>(&'a self, name: &'a str, text: &'a str) -> Boxed<'a, KeptChange> {
        Box::pin(Store::keep_policy(self, name, text))
    }

    fn drop_kept_policy<'a>(&'a self, name: &'a str) -> Boxed<'a, KeptChange> {
        Box::pin(Store::drop_kept_policy(self, name))
    }

    fn kept_policies(&self, since: u64) -> Boxed<'_, KeptChanges> {
        Box::pin(Store::kept_policies(self, since))
    }

    fn set_policy_as(&self, policy: Policy, serving: Serving) -> Boxed<'_, ()> {
        Box::pin(Store::set_policy_as(self, policy, serving))
    }

    fn apply_within<'a>(
        &'a self,
        patience: Duration,
        verb: Verb,
        charges: &'a [Charge<'a>],
    ) -> Boxed<'a, Vec<Answer>> {
        Box::pin(Store::apply_within(self, patience, verb, charges))
    }

    fn fill<'a>(&'a self, policy: &'a Policy, charge: &'a Charge<'a>) -> Boxed<'a, Cost> {
        Box::pin(Store::fill(self, policy, charge))
    }

    fn probe(&self) -> Boxed<'_, Vec<String>> {
        Box::pin(Store::probe(self))
    }

    fn is_degraded(&self) -> bool {
        Store::is_degraded(self)
    }

    fn failures(&self) -> Vec<(Failure, u64)> {
        Store::failures(self)
    }

    fn nodes_alive(&self) -> Option<u64> {
        Store::nodes_alive(self)
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(Store::close(self))
    }
}

impl Store for DynStore {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.0.set_policy(policy).await
    }

    async fn set_variant(
        &self,
        of: &str,
        policy: Policy,
        migration: Migration,
    ) -> Result<(), StoreError> {
        self.0.set_variant(of, policy, migration).await
    }

    async fn remove_policy(&self, name: &str) -> Result<(), StoreError> {
        self.0.remove_policy(name).await
    }

    async fn remove_variants(&self, of: &str, names: &[&str]) -> Result<(), StoreError> {
        self.0.remove_variants(of, names).await
    }

    async fn set_override(&self, policy: &str, new: &KeyOverride) -> Result<(), StoreError> {
        self.0.set_override(policy, new).await
    }

    async fn clear_override(&self, policy: &str, key: &[u8]) -> Result<bool, StoreError> {
        self.0.clear_override(policy, key).await
    }

    async fn override_of(
        &self,
        policy: &str,
        key: &[u8],
    ) -> Result<Option<KeyOverride>, StoreError> {
        self.0.override_of(policy, key).await
    }

    async fn overrides(
        &self,
        policy: &str,
        after: Option<&str>,
        count: usize,
    ) -> Result<OverridePage, StoreError> {
        self.0.overrides(policy, after, count).await
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        match self.0.apply_now(verb, charges) {
            Some(answers) => answers,
            None => self.0.apply(verb, charges).await,
        }
    }

    fn apply_one_now(&self, verb: Verb, charge: &Charge<'_>) -> Option<Result<Answer, StoreError>> {
        self.0.apply_one_now(verb, charge)
    }

    fn decide_now(&self, charge: &Charge<'_>) -> Option<Result<(Decision, Source), StoreError>> {
        self.0.decide_now(charge)
    }

    fn answers_at_once(&self) -> bool {
        self.0.answers_at_once()
    }

    async fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        match self.0.reserve_now(hold) {
            Some(reserved) => reserved,
            None => self.0.reserve(hold).await,
        }
    }

    async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        match self.0.settle_now(id, with) {
            Some(settled) => settled,
            None => self.0.settle(id, with).await,
        }
    }

    async fn keep_policy(&self, name: &str, text: &str) -> Result<KeptChange, StoreError> {
        self.0.keep_policy(name, text).await
    }

    async fn drop_kept_policy(&self, name: &str) -> Result<KeptChange, StoreError> {
        self.0.drop_kept_policy(name).await
    }

    async fn kept_policies(&self, since: u64) -> Result<KeptChanges, StoreError> {
        self.0.kept_policies(since).await
    }

    async fn set_policy_as(&self, policy: Policy, serving: Serving) -> Result<(), StoreError> {
        self.0.set_policy_as(policy, serving).await
    }

    async fn apply_within(
        &self,
        patience: Duration,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        match self.0.apply_now(verb, charges) {
            Some(answers) => answers,
            None => self.0.apply_within(patience, verb, charges).await,
        }
    }

    async fn fill(&self, policy: &Policy, charge: &Charge<'_>) -> Result<Cost, StoreError> {
        self.0.fill(policy, charge).await
    }

    async fn probe(&self) -> Result<Vec<String>, StoreError> {
        self.0.probe().await
    }

    fn is_degraded(&self) -> bool {
        self.0.is_degraded()
    }

    fn failures(&self) -> Vec<(Failure, u64)> {
        self.0.failures()
    }

    fn nodes_alive(&self) -> Option<u64> {
        self.0.nodes_alive()
    }

    async fn close(&self) {
        self.0.close().await;
    }
}
