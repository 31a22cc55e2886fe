//! The seam between callers and where state lives, with everything that an implementation of [`Store`] needs.
//!
//! Callers find what they need in the root of the crate. A store of your own implements [`Store`]: it keeps
//! the words of every key and applies [`Decide`] and [`Reserve`] to them, `MemoryStore` under a lock. What
//! several charges have to do with each other is [`withhold_unless_all_admit`] and [`retry_together`].

mod charge;
mod dyn_store;
mod error;
mod failure;
mod fill;
mod kept;
mod key_override;
mod limit_decisions;
mod reservation;
mod together;

use std::pin::pin;
use std::slice;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub use charge::{Answer, Applied, Charge, Source, Verb};
pub use dyn_store::DynStore;
pub use error::{Detail, StoreError, Unfit};
pub use failure::Failure;
pub use fill::fill_by_check;
pub use kept::{
    KeptChange, KeptChanges, MAX_KEPT_BYTES, MAX_KEPT_POLICIES, MAX_KEPT_TEXT, check_kept,
};
pub use key_override::{BadOverride, KeyOverride, Override, OverridePage, tier_variant};
pub use limit_decisions::LimitDecisions;
pub use reservation::{
    BadReservation, Hold, MAX_RESERVATION_ID, MAX_RESERVATION_TTL, MIN_RESERVATION_TTL, OnExpiry,
    ReservationIds, Reserved, Settled, Settlement, check_reservation_id, check_reserved_costs,
};
pub(crate) use together::only_answer;
pub use together::{price_of_held, retry_together, withhold_unless_all_admit};
pub use waterclock_core::store::{
    Decide, Logs, Migrate, Migration, OneWord, Persist, Reserve, ReservedUnits, State, Verdict,
    View,
};
use waterclock_core::{Cost, Decision, Policy};

use crate::fallback::Serving;

/// The most policies of a store outside this process that may share their keys by [units](Migration::Units).
pub const MAX_SHARING: usize = 450;

const KEEPS_NONE: &str = "this store keeps no policies for other servers";

/// Where state lives: in this process, or elsewhere.
///
/// Callers use [`check`](Store::check), or [`apply`](Store::apply) for several charges that are admitted
/// together or not at all. Decisions mean the same in every store; a conformance suite holds each of them to it.
///
/// The trait is not `dyn`-compatible, because its futures are not boxed: a check in memory allocates nothing.
/// Use [`DynStore`] where the kind of store is chosen at run time.
///
/// ```
/// use waterclock::{Limit, MemoryStore, Policy, Store};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = MemoryStore::default();
/// store.set_policy(Policy::new("login", [Limit::per_minute(5)])?).await?;
/// assert!(store.check("login", "alice").await?.is_allowed());
/// assert_eq!(store.check_n("login", "alice", 2).await?.remaining(), Some(2));
/// assert!(!store.peek_n("login", "alice", 3).await?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub trait Store: Send + Sync {
    /// Adds a policy, or replaces the one of its name; what was spent stays spent.
    fn set_policy(&self, policy: Policy) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Adds a policy that shares its keys with the policy `of` and all its variants, or replaces the one
    /// of its name: what is spent under one of them is spent under the others. For limits that are
    /// overridden for one key or one call, for tiers, for a candidate beside a live policy.
    ///
    /// It has a name of its own, and its limits have the names of those of `of`. A refusal or a peek
    /// changes nothing, under whichever of them. One check cannot charge one key under two of them.
    fn set_variant(
        &self,
        of: &str,
        policy: Policy,
        migration: Migration,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        let reason = format!("this store cannot share the keys of `{of}` with `{}`", policy.name());
        _ = migration;
        async { Err(StoreError::unfit(reason)) }
    }

    /// Removes a policy, and all its variants if it has some. Keys that were charged under a variant go on
    /// under the policy it was a variant of.
    fn remove_policy(&self, name: &str) -> impl Future<Output = Result<(), StoreError>> + Send {
        let reason = format!("this store cannot remove policy `{name}`");
        async { Err(StoreError::unfit(reason)) }
    }

    /// Removes variants of a policy: many at once, where that costs less than one by one. Names that are not known are
    /// passed over. Add none of them again before this is done.
    fn remove_variants(
        &self,
        of: &str,
        names: &[&str],
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        _ = of;
        async move {
            for name in names {
                match self.remove_policy(name).await {
                    Ok(()) | Err(StoreError::UnknownPolicy(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        }
    }

    /// Sets what applies to one key of a policy instead of the policy's limits, or replaces what does. It is kept until
    /// it is cleared or expires, whatever becomes of the key's state; what was spent stays spent. `policy` is the name
    /// of a policy, not of a variant.
    ///
    /// ```
    /// use waterclock::{KeyOverride, Limit, MemoryStore, Override, Policy, Store};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let store = MemoryStore::default();
    /// store.set_policy(Policy::new("login", [Limit::per_minute(5)])?).await?;
    /// let more = KeyOverride::new("alice", Override::limits([Limit::per_minute(100)])?);
    /// store.set_override("login", &more).await?;
    /// assert_eq!(store.check("login", "alice").await?.remaining(), Some(99));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    fn set_override(
        &self,
        policy: &str,
        new: &KeyOverride,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        _ = (policy, new);
        async { Err(StoreError::unfit("this store keeps no overrides")) }
    }

    /// Clears the override of a key; whether it had one.
    fn clear_override(
        &self,
        policy: &str,
        key: &[u8],
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        _ = (policy, key);
        async { Err(StoreError::unfit("this store keeps no overrides")) }
    }

    /// The override of a key, if it has one.
    fn override_of(
        &self,
        policy: &str,
        key: &[u8],
    ) -> impl Future<Output = Result<Option<KeyOverride>, StoreError>> + Send {
        _ = (policy, key);
        async { Ok(None) }
    }

    /// At most `count` overrides of a policy, and where the next of them start: pass that as `after`.
    fn overrides(
        &self,
        policy: &str,
        after: Option<&str>,
        count: usize,
    ) -> impl Future<Output = Result<OverridePage, StoreError>> + Send {
        _ = (policy, after, count);
        async { Ok(OverridePage::default()) }
    }

    /// Asks for one unit of this key under this policy, and charges it if it is admitted.
    fn check(
        &self,
        policy: &str,
        key: impl AsRef<[u8]> + Send,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.check_n(policy, key, 1)
    }

    /// Asks for so many units, and charges them if all are admitted.
    fn check_n(
        &self,
        policy: &str,
        key: impl AsRef<[u8]> + Send,
        cost: impl Into<Cost> + Send,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        async move { only_decision(self, Verb::Check, policy, key.as_ref(), cost.into()).await }
    }

    /// What [`check`](Store::check) would say; charges nothing.
    fn peek(
        &self,
        policy: &str,
        key: impl AsRef<[u8]> + Send,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.peek_n(policy, key, 1)
    }

    /// What [`check_n`](Store::check_n) would say; charges nothing.
    fn peek_n(
        &self,
        policy: &str,
        key: impl AsRef<[u8]> + Send,
        cost: impl Into<Cost> + Send,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        async move { only_decision(self, Verb::Peek, policy, key.as_ref(), cost.into()).await }
    }

    /// Applies a verb to all charges, atomically. The answers are in the order of the charges.
    ///
    /// Charges that name the same policy and key are summed first, and share their answer.
    fn apply(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> impl Future<Output = Result<Vec<Answer>, StoreError>> + Send;

    /// Whether its futures are ready when they are first polled, as those of a store in this process are: then a
    /// caller needs neither a box nor a task to wait for them, see [`now_or_never`].
    fn answers_at_once(&self) -> bool {
        false
    }

    /// As [`apply`](Self::apply) of one charge, without a future and without lists; `None` if the store has to wait for
    /// the answer, and then nothing is charged. A store outside this process may still answer some calls at once, as Redis
    /// does from leased units.
    fn apply_one_now(&self, verb: Verb, charge: &Charge<'_>) -> Option<Result<Answer, StoreError>> {
        if !self.answers_at_once() {
            return None;
        }
        let answers = now_or_never(self.apply(verb, slice::from_ref(charge)))?;
        Some(answers.and_then(only_answer))
    }

    /// A check of one charge as [`apply_one_now`](Self::apply_one_now), of which only the decision matters: the numbers of
    /// each limit need not be computed.
    #[inline]
    fn decide_now(&self, charge: &Charge<'_>) -> Option<Result<(Decision, Source), StoreError>> {
        let answer = self.apply_one_now(Verb::Check, charge)?;
        Some(answer.map(|answer| (answer.decision, answer.source)))
    }

    /// Decides about all charges as a check does and, if they are admitted, holds them until they are
    /// settled. The same id with the same charges answers the same reservation and charges nothing; with
    /// other charges it is an error.
    fn reserve(
        &self,
        hold: &Hold<'_>,
    ) -> impl Future<Output = Result<Reserved, StoreError>> + Send {
        _ = hold;
        async { Err(StoreError::Unfit(Unfit::NoReservations)) }
    }

    /// Settles a reservation, once: what is asked after that answers the same and changes nothing.
    fn settle(
        &self,
        id: &str,
        with: Settlement<'_>,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send {
        _ = (id, with);
        async { Err(StoreError::Unfit(Unfit::NoReservations)) }
    }

    /// Keeps the text of a policy beside the state, for all servers that share the store and for the next run. It is
    /// not read: [`set_policy`](Self::set_policy) what it means. The same text again changes nothing.
    ///
    /// ```
    /// use waterclock::{MemoryStore, Store};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let store = MemoryStore::default();
    /// let kept = store.keep_policy("login", r#"{"limits":["5/m"]}"#).await?;
    /// assert!(!kept.existed);
    /// assert!(!store.keep_policy("login", r#"{"limits":["5/m"]}"#).await?.is_change());
    ///
    /// // Another server, or this one after a restart, asks for what changed since the version it knows.
    /// let found = store.kept_policies(0).await?;
    /// assert_eq!(found.changes[0].0, "login");
    /// assert!(store.kept_policies(found.version).await?.changes.is_empty());
    /// # Ok::<(), waterclock::StoreError>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`StoreError::KeptFull`] if [`MAX_KEPT_POLICIES`] are kept or their texts would exceed [`MAX_KEPT_BYTES`];
    /// [`StoreError::Unfit`] for a name or a text that is empty or too long.
    fn keep_policy(
        &self,
        name: &str,
        text: &str,
    ) -> impl Future<Output = Result<KeptChange, StoreError>> + Send {
        _ = (name, text);
        async { Err(StoreError::unfit(KEEPS_NONE)) }
    }

    /// Keeps the text of a policy no longer. What was set by it stays until [`remove_policy`](Self::remove_policy).
    fn drop_kept_policy(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<KeptChange, StoreError>> + Send {
        _ = name;
        async { Err(StoreError::unfit(KEEPS_NONE)) }
    }

    /// Which policies were kept or dropped since a version, 0 for all that are kept. If nothing changed, that costs a
    /// shared store one small read.
    fn kept_policies(
        &self,
        since: u64,
    ) -> impl Future<Output = Result<KeptChanges, StoreError>> + Send {
        _ = since;
        async { Err(StoreError::unfit(KEEPS_NONE)) }
    }

    /// As [`set_policy`](Self::set_policy), with how to serve it. A store takes of that what concerns it.
    fn set_policy_as(
        &self,
        policy: Policy,
        serving: Serving,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        _ = serving;
        self.set_policy(policy)
    }

    /// As [`apply`](Self::apply), for a caller that waits at most `patience`. A store that takes time answers, falls
    /// back or fails by then.
    fn apply_within(
        &self,
        patience: Duration,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> impl Future<Output = Result<Vec<Answer>, StoreError>> + Send {
        _ = patience;
        self.apply(verb, charges)
    }

    /// Charges as much of a cost as there is room for, whatever the policy's mode, and returns how much that was.
    /// [`Fallback`](crate::Fallback) reconciles by it. `policy` is the charge's.
    ///
    /// Unless a store does it in one step, a check by another caller in between may leave less room, and then nothing
    /// is charged.
    fn fill(
        &self,
        policy: &Policy,
        charge: &Charge<'_>,
    ) -> impl Future<Output = Result<Cost, StoreError>> + Send {
        fill_by_check(self, policy, charge)
    }

    /// Makes sure that its servers can be reached and can decide, and returns what an operator should know about
    /// them.
    fn probe(&self) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send {
        async { Ok(Vec::new()) }
    }

    /// Whether it is unreachable at the moment, in part or altogether, so that checks fall back or fail.
    fn is_degraded(&self) -> bool {
        false
    }

    /// How often it failed so far, by kind, whether or not something else answered.
    fn failures(&self) -> Vec<(Failure, u64)> {
        Vec::new()
    }

    /// How many nodes share it, this one included, when they were last counted; `None` if they are not.
    fn nodes_alive(&self) -> Option<u64> {
        None
    }

    /// Gives back what this process holds of it, before the process ends.
    fn close(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

async fn only_decision<S: Store + ?Sized>(
    store: &S,
    verb: Verb,
    policy: &str,
    key: &[u8],
    cost: Cost,
) -> Result<Decision, StoreError> {
    let charge = Charge::new(policy, key, cost);
    if verb == Verb::Check {
        if let Some(decided) = store.decide_now(&charge) {
            return Ok(decided?.0);
        }
    } else if let Some(answer) = store.apply_one_now(verb, &charge) {
        return Ok(answer?.decision);
    }
    let answers = store.apply(verb, slice::from_ref(&charge)).await?;
    Ok(only_answer(answers)?.decision)
}

/// The output of a future that is ready when it is first polled; `None` if it has to wait. For calls of a
/// store that [answers at once](Store::answers_at_once), outside of any runtime.
pub fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
