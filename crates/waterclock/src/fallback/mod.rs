//! Decisions while a store outside this process is unreachable.

mod breaker;
mod builder;
mod known;
mod local;
mod outage;
mod reconcile;
mod serving;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use waterclock_core::store::Migration;
use waterclock_core::{Cost, Decision, Policy};

use crate::clock::{Clock, MonotonicClock};
use crate::store::{
    Answer, Charge, Failure, Hold, KeptChange, KeptChanges, KeyOverride, OverridePage, Reserved,
    Settled, Settlement, Source, Store, StoreError, Verb,
};
pub use breaker::{Breaker, Permit};
pub use builder::FallbackBuilder;
use known::Known;
use local::LocalShare;
use outage::Outage;
pub use serving::{Lease, OnStoreError, Serving};

/// How long a store may be silent before its breaker opens, by default.
const SILENCE: Duration = Duration::from_millis(100);

/// A store that keeps deciding while the one it wraps is unreachable.
///
/// ```
/// use waterclock::{Fallback, Limit, MemoryStore, OnStoreError, Policy, Serving, Store};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let remote = MemoryStore::default();
/// let store = Fallback::builder(remote).nodes(4).build()?;
/// let strict = Serving::new(OnStoreError::Deny);
/// store.set_policy_as(Policy::new("login", [Limit::per_minute(5)])?, strict).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// It adds the following to a store, and [`Answer::source`] tells which of them answered:
///
/// - A [`Breaker`] stops calls to a store that fails, and lets one caller try it after each pause. A store with a
///   breaker per server, as Redis has, is built [`without_breaker`](FallbackBuilder::without_breaker).
/// - While there is no answer, each policy's [`OnStoreError`] decides; for a check over several policies the
///   strictest one does (`deny`, then `local`, then `allow`). With [`Serving::local_for`], `local` becomes `deny` when
///   an outage has lasted that long: then k of N nodes that are cut off admit, beyond the limit, at most what their
///   shares admit in that time (of a bucket, k/N · (capacity + rate · `local_for`)), however long the outage lasts.
///   An outage is over when the store has answered for a minute without a failure; the answers at both ends count, not
///   the silence of nobody calling. One clock counts for all policies and servers of this node.
/// - A node's share is `1/nodes`. If the store counted [more nodes](Store::nodes_alive) when it last answered, it is
///   one divided by their number.
/// - Units that were admitted locally are charged to the store when it is back ([`reconcile`](Self::reconcile)),
///   as far as it has room for them.
///
/// | call while the store is unreachable | `local` | `allow` | `deny` |
/// |---|---|---|---|
/// | check | decided by this node's share of each limit, charged to the store later | allowed | error |
/// | peek | this node's share | a fresh key | error |
/// | debit | charged to this node's share; charged to the store later if the failed call certainly was not | a fresh key; charged nowhere | error |
/// | report | counted by this node only | a fresh key; counted nowhere | error |
/// | refund, reset | error | error | error |
/// | reserve, commit, cancel | error | error | error |
///
/// An outage is a failure of a kind that counts for the breaker, or an open breaker. Other failures fall back for as long as they
/// last, and are denied after [`Serving::local_for`] only during an outage.
///
/// | [`Failure`] | the call may have charged | counts for the breaker | falls back |
/// |---|---|---|---|
/// | `Timeout`, `BadReply` | yes | yes (but `Timeout` of [`apply_within`](Store::apply_within): only silence does) | yes |
/// | `Unreachable` | only if the connection broke after sending | yes; opens it at once if nothing listens | yes |
/// | `Loading`, `ReadOnly`, `Auth` | no | yes (but `Auth` of a reset) | yes |
/// | `Version` | yes | yes | yes |
/// | `OutOfMemory` | no | no | yes |
/// | `Foreign` | yes | no | yes |
/// | `Open`, `Overloaded` | no | no | yes |
/// | any in [`StoreError::Denied`] | unless `Open` or `Overloaded` | no | no |
/// | none: the call was wrong | | no; the store answers | no |
///
/// "May have charged" matters to debits and to reconciling, which are repeated only if it is "no": these are counted
/// at most once. A check that may have charged and was then admitted here may be counted twice: the store refuses
/// earlier then, never later.
pub struct Fallback<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    store: S,
    breaker: Option<Breaker>,
    clock: MonotonicClock,
    local: LocalShare,
    /// How many nodes share the store, at least.
    nodes: u64,
    outage: Outage,
    policies: RwLock<HashMap<Box<str>, Known>>,
    /// For policies that are set without one.
    serving: Serving,
    is_reconciling: AtomicBool,
    failures: [AtomicU64; Failure::ALL.len()],
}

impl<S> Fallback<S> {
    /// Settings for a fallback around a store.
    #[must_use]
    pub fn builder(store: S) -> FallbackBuilder<S> {
        FallbackBuilder { store, serving: Serving::default(), nodes: 1, silence: Some(SILENCE) }
    }

    /// The store itself.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.shared.store
    }

    /// Drops a policy that the store no longer has, and what was admitted under it.
    pub async fn drop_policy(&self, name: &str) {
        // It may never have been adopted.
        _ = self.shared.local.remove_policy(name).await;
        self.shared.policies.write().retain(|known, entry| {
            **known != *name && entry.of.as_ref().is_none_or(|of| **of != *name)
        });
    }
}

impl<S> Shared<S> {
    /// Permission to call the store, or why not, which is counted.
    fn enter(&self) -> Result<Option<Permit<'_>>, StoreError> {
        self.permit().inspect_err(|error| self.count(error))
    }

    fn permit(&self) -> Result<Option<Permit<'_>>, StoreError> {
        let Some(breaker) = &self.breaker else { return Ok(None) };
        let reason = "it failed repeatedly and is not called until the next trial";
        let permit = breaker.enter(self.clock.now());
        permit.map(Some).ok_or_else(|| StoreError::failed(Failure::Open, reason))
    }

    /// Notes how a call went, and counts it if it failed.
    fn leave(&self, permit: Option<Permit<'_>>, caller: Caller, error: Option<&StoreError>) {
        self.report(permit, caller, error);
        error.into_iter().for_each(|error| self.count(error));
    }

    fn count(&self, error: &StoreError) {
        if let Some(kind) = error.failure() {
            self.failures[kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells the breaker how a call went.
    fn report(&self, permit: Option<Permit<'_>>, caller: Caller, error: Option<&StoreError>) {
        let Some(permit) = permit else { return };
        let Some(error) = error else { return permit.succeeded() };
        let now = self.clock.now();
        match error.failure() {
            _ if matches!(error, StoreError::Denied { .. }) => permit.succeeded(),
            // A token that allows checks may not allow resets.
            Some(Failure::Auth) if caller.verb == Some(Verb::Reset) => permit.succeeded(),
            Some(Failure::Timeout) if caller.is_impatient => _ = permit.gave_up(now),
            Some(Failure::Unreachable) if !error.may_have_charged() => _ = permit.refused(now),
            Some(kind) if kind.trips_breaker() => _ = permit.failed(now),
            // It was not called.
            Some(Failure::Open | Failure::Overloaded) => {}
            // It answers, if only that it is full or that the call is wrong.
            Some(_) | None => permit.succeeded(),
        }
    }
}

/// What a call of the store asks for, and how.
#[derive(Clone, Copy)]
struct Caller {
    /// None for reservations.
    verb: Option<Verb>,
    /// Whether it may stop waiting before the store's own deadline is over.
    is_impatient: bool,
}

impl Caller {
    fn patient(verb: impl Into<Option<Verb>>) -> Self {
        Self { verb: verb.into(), is_impatient: false }
    }
}

/// Whether this node is without the store, and not only this call.
fn is_outage(error: &StoreError, verb: Verb) -> bool {
    match error.failure() {
        // A token that allows checks may not allow resets.
        Some(Failure::Auth) => verb != Verb::Reset,
        Some(Failure::Open) => true,
        kind => kind.is_some_and(Failure::trips_breaker),
    }
}

impl<S: Store> Shared<S> {
    /// Answers in the store's place if the policies allow it.
    async fn fall_back(
        &self,
        error: StoreError,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        if !matches!(error, StoreError::Failed { .. }) {
            return Err(error);
        }
        let began = if is_outage(&error, verb) {
            Some(self.outage.failed(self.clock.now()))
        } else {
            self.outage.began()
        };
        // A refund or reset made only here would leave the store charged.
        if matches!(verb, Verb::Refund | Verb::Reset) {
            return Err(error);
        }
        let known = self.known(charges)?;
        let any = |choice| known.iter().any(|known| known.serving.on_store_error == choice);
        let ends = |began| known.iter().filter_map(|known| known.local_until(began)).min();
        let local_until = began.and_then(ends);
        let is_too_late = || local_until.is_some_and(|until| self.clock.now() >= until);
        if any(OnStoreError::Deny) || is_too_late() {
            return Err(error);
        }
        if any(OnStoreError::Local) {
            let nodes = self.nodes();
            let divided_otherwise = known.iter().filter(|known| known.nodes != nodes);
            divided_otherwise.for_each(|known| self.divide(known.policy.name(), nodes));
            let answers = self.local.apply(verb, charges).await?;
            // It was in time, but perhaps not when the share decided. Charged all the same: that errs on the safe side.
            if is_too_late() {
                return Err(error);
            }
            if verb == Verb::Debit && !error.may_have_charged() {
                self.local.note_debits(charges);
            }
            return Ok(answers);
        }
        let exempt = |(charge, known): (&Charge<'_>, &Known)| {
            let priced = charge.priced(verb, &known.policy)?;
            Ok(Answer::exempt(&known.policy, &priced.cost))
        };
        charges.iter().zip(&known).map(exempt).collect()
    }
}

impl<S: Store + 'static> Fallback<S> {
    /// Prepares for a policy that the store already has. One that was set before is served as it was.
    pub async fn adopt_policy(&self, policy: &Policy) -> Result<(), StoreError> {
        let (share, nodes) = self.shared.share_of(policy)?;
        self.shared.local.set_policy(share).await?;
        let known = self.shared.policies.read().get(policy.name()).cloned();
        let (serving, of) = match known {
            Some(known) => (known.serving, known.of),
            None => (self.shared.serving, None),
        };
        self.shared.know(policy, nodes, serving, of);
        Ok(())
    }

    /// Calls the store if the breaker permits it, and notes how that went.
    async fn call<'s, T, F>(
        &'s self,
        caller: Caller,
        call: impl FnOnce(&'s S) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let permit = self.shared.enter()?;
        let called = call(&self.shared.store).await;
        self.shared.leave(permit, caller, called.as_ref().err());
        called
    }

    /// Notes that the store answers. While another of its servers does not, it may have answered for that one only.
    fn note_answer(&self) {
        let Shared { outage, clock, .. } = &*self.shared;
        if outage.lasts() {
            let now = clock.now();
            if outage.awaits_answer(now) && !self.is_degraded() {
                outage.answered(now);
            }
        }
    }

    /// Refusals and leases are answered from memory: they do not prove that the store is back.
    fn note_answers(&self, answers: &[Answer]) {
        if answers.iter().any(|answer| answer.source == Source::Authoritative) {
            self.note_answer();
            self.reconcile_soon();
        }
    }

    /// Calls the store and passes on its answers, or falls back.
    async fn answer<'s, F>(
        &'s self,
        (verb, is_impatient): (Verb, bool),
        charges: &[Charge<'_>],
        call: impl FnOnce(&'s S) -> F,
    ) -> Result<Vec<Answer>, StoreError>
    where
        F: Future<Output = Result<Vec<Answer>, StoreError>>,
    {
        if charges.is_empty() {
            return Ok(Vec::new());
        }
        match self.call(Caller { verb: Some(verb), is_impatient }, call).await {
            Ok(answers) => {
                self.note_answers(&answers);
                Ok(answers)
            }
            Err(error) => self.shared.fall_back(error, verb, charges).await,
        }
    }
}

impl<S: Store + 'static> Store for Fallback<S> {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.set_policy_as(policy, self.shared.serving).await
    }

    async fn set_policy_as(&self, policy: Policy, serving: Serving) -> Result<(), StoreError> {
        let (share, nodes) = self.shared.share_of(&policy)?;
        self.shared.store.set_policy_as(policy.clone(), serving).await?;
        self.shared.local.set_policy(share).await?;
        let of = self.shared.policies.read().get(policy.name()).and_then(|known| known.of.clone());
        self.shared.know(&policy, nodes, serving, of);
        Ok(())
    }

    async fn set_variant(
        &self,
        of: &str,
        policy: Policy,
        migration: Migration,
    ) -> Result<(), StoreError> {
        let (share, nodes) = self.shared.share_of(&policy)?;
        self.shared.store.set_variant(of, policy.clone(), migration).await?;
        self.shared.local.set_variant(of, share, migration).await?;
        let base = self.shared.policies.read().get(of).cloned();
        let (base_name, serving) = match base {
            Some(base) => (base.of.unwrap_or_else(|| of.into()), base.serving),
            None => (of.into(), self.shared.serving),
        };
        self.shared.know(&policy, nodes, serving, Some(base_name));
        Ok(())
    }

    async fn remove_policy(&self, name: &str) -> Result<(), StoreError> {
        self.shared.store.remove_policy(name).await?;
        self.drop_policy(name).await;
        Ok(())
    }

    async fn remove_variants(&self, of: &str, names: &[&str]) -> Result<(), StoreError> {
        self.shared.store.remove_variants(of, names).await?;
        // They may never have been adopted.
        _ = self.shared.local.remove_variants(of, names).await;
        self.shared.policies.write().retain(|known, _| !names.contains(&&**known));
        Ok(())
    }

    async fn set_override(&self, policy: &str, new: &KeyOverride) -> Result<(), StoreError> {
        self.call(Caller::patient(None), |store| store.set_override(policy, new)).await
    }

    async fn clear_override(&self, policy: &str, key: &[u8]) -> Result<bool, StoreError> {
        self.call(Caller::patient(None), |store| store.clear_override(policy, key)).await
    }

    async fn override_of(
        &self,
        policy: &str,
        key: &[u8],
    ) -> Result<Option<KeyOverride>, StoreError> {
        self.call(Caller::patient(None), |store| store.override_of(policy, key)).await
    }

    async fn overrides(
        &self,
        policy: &str,
        after: Option<&str>,
        count: usize,
    ) -> Result<OverridePage, StoreError> {
        self.call(Caller::patient(None), |store| store.overrides(policy, after, count)).await
    }

    fn apply_one_now(&self, verb: Verb, charge: &Charge<'_>) -> Option<Result<Answer, StoreError>> {
        // A breaker decides first whether the store may be called.
        if self.shared.breaker.is_some() {
            return None;
        }
        // What fails charges nothing, and `apply` fails in the same way, or falls back.
        let answer = self.shared.store.apply_one_now(verb, charge)?.ok()?;
        self.note_answers(slice::from_ref(&answer));
        Some(Ok(answer))
    }

    #[inline]
    fn decide_now(&self, charge: &Charge<'_>) -> Option<Result<(Decision, Source), StoreError>> {
        if self.shared.breaker.is_some() {
            return None;
        }
        let (decision, source) = self.shared.store.decide_now(charge)?.ok()?;
        if source == Source::Authoritative {
            self.note_answer();
            self.reconcile_soon();
        }
        Some(Ok((decision, source)))
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        self.answer((verb, false), charges, |store| store.apply(verb, charges)).await
    }

    async fn apply_within(
        &self,
        patience: Duration,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        let answer =
            self.answer((verb, true), charges, |store| store.apply_within(patience, verb, charges));
        answer.await
    }

    async fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        self.call(Caller::patient(None), |store| store.reserve(hold)).await
    }

    async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        self.call(Caller::patient(None), |store| store.settle(id, with)).await
    }

    async fn keep_policy(&self, name: &str, text: &str) -> Result<KeptChange, StoreError> {
        self.shared.store.keep_policy(name, text).await
    }

    async fn drop_kept_policy(&self, name: &str) -> Result<KeptChange, StoreError> {
        self.shared.store.drop_kept_policy(name).await
    }

    async fn kept_policies(&self, since: u64) -> Result<KeptChanges, StoreError> {
        self.shared.store.kept_policies(since).await
    }

    /// Fails while the store is unreachable: nothing else can be charged in its place.
    async fn fill(&self, policy: &Policy, charge: &Charge<'_>) -> Result<Cost, StoreError> {
        self.call(Caller::patient(Verb::Check), |store| store.fill(policy, charge)).await
    }

    async fn probe(&self) -> Result<Vec<String>, StoreError> {
        self.shared.store.probe().await
    }

    fn is_degraded(&self) -> bool {
        let is_open = self.shared.breaker.as_ref().is_some_and(Breaker::is_open);
        is_open || self.shared.store.is_degraded()
    }

    fn failures(&self) -> Vec<(Failure, u64)> {
        let count = |kind| (kind, self.shared.failures[kind as usize].load(Ordering::Relaxed));
        Failure::ALL.into_iter().map(count).collect()
    }

    fn nodes_alive(&self) -> Option<u64> {
        self.shared.store.nodes_alive()
    }

    async fn close(&self) {
        self.shared.store.close().await;
    }
}

impl<S> Clone for Fallback<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<S: fmt::Debug> fmt::Debug for Fallback<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { store, breaker, .. } = &*self.shared;
        let mut shown = f.debug_struct("Fallback");
        shown.field("store", store).field("breaker", breaker).finish_non_exhaustive()
    }
}
