//! A store in this process.

mod apply;
mod handle;
mod hasher;
mod kept;
mod overrides;
mod policies;
mod reservation;
mod snapshot;

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use waterclock_core::store::Migration;
use waterclock_core::{Cost, Decision, Policy, Timestamp};

use crate::clock::{Clock, TscClock};
use crate::fallback::Serving;
use crate::keyed::DEFAULT_MAX_KEYS;
use crate::places::{DEFAULT_MAX_BYTES, KeyUsage, Places};
use crate::store::{Answer, Charge, Store, StoreError, Verb};
use crate::store::{
    Hold, KeptChange, KeptChanges, KeyOverride, OverridePage, Reserved, Settled, Settlement,
};
use crate::sync::{Arc, AtomicU64, Mutex, lock};
use crate::table::{Found, Key, Table, Variant};
use apply::Spot;
pub use handle::PolicyHandle;
use hasher::Hasher;
use kept::Kept;
use reservation::Book;
pub use snapshot::{RestoreError, Restored, Saved};
pub(crate) use snapshot::{push_bytes, push_text};

/// By default there is room for one reservation per this many keys, and for a minimum number.
const KEYS_PER_RESERVATION: usize = 10;
const LEAST_RESERVATIONS: usize = 1_024;

/// A [`Store`] in this process: every policy's keys, bounded together, of which each policy has its share. Cheap to
/// clone.
///
/// The same table as a [`KeyedLimiter`](crate::KeyedLimiter)'s, one per policy. [`Store::apply`] is for
/// checks of any shape, [`Store::check`] for one key of one policy; a [`PolicyHandle`] does the same without
/// `await`, and without looking the policy up.
#[derive(Debug)]
pub struct MemoryStore<C = TscClock> {
    shared: Arc<Shared<C>>,
}

/// Where each policy's keys are, by its name.
type Members = HashMap<Box<str>, Member, ahash::RandomState>;

/// A policy's table, which it may share with others of its family.
#[derive(Clone, Debug)]
struct Member {
    table: Arc<Table>,
    variant: Variant,
}

impl Member {
    fn policy(&self) -> Arc<Policy> {
        self.table.policy(self.variant)
    }

    /// A policy that counts several units rejects a plain number as a cost.
    #[inline]
    fn takes(&self, cost: u64) -> Result<(), StoreError> {
        if self.table.may_count_several() {
            self.policy().price(&cost.into(), 1)?;
        }
        Ok(())
    }

    /// A cost in the policy's units. Most policies take one number, which needs no lookup.
    fn price(&self, verb: Verb, cost: &Cost) -> Result<Cost, StoreError> {
        match cost.plain() {
            Some(_) if !self.table.may_count_several() => Ok(cost.clone()),
            _ => Ok(verb.price(&self.policy(), Some(cost))?),
        }
    }

    fn spot(&self, key: Key) -> Spot {
        (Arc::as_ptr(&self.table).addr(), key.fingerprint)
    }

    /// Whether the table goes by its name.
    fn is_base(&self) -> bool {
        self.variant == Variant::BASE
    }
}

/// What a store and its handles share.
#[derive(Debug)]
struct Shared<C> {
    members: RwLock<Members>,
    /// Held while policies change, which takes several steps.
    changing: Mutex<()>,
    places: Arc<Places>,
    hasher: Hasher,
    clock: C,
    /// Policies that are kept as text.
    kept: Mutex<Kept>,
    book: Mutex<Book>,
    /// When the next reservation expires that is to be released, in nanoseconds; the largest number if there
    /// is none.
    next_release: AtomicU64,
}

impl<C> Clone for MemoryStore<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_KEYS, TscClock::default())
    }
}

impl<C: Clock> MemoryStore<C> {
    /// A store for at most `max_keys` keys of all its policies together.
    pub fn new(max_keys: usize, clock: C) -> Self {
        let shared = Shared {
            members: RwLock::default(),
            changing: Mutex::new(()),
            places: Arc::new(Places::new(max_keys, DEFAULT_MAX_BYTES)),
            hasher: Hasher::default(),
            clock,
            kept: Mutex::new(Kept::default()),
            book: Mutex::new(Book::new((max_keys / KEYS_PER_RESERVATION).max(LEAST_RESERVATIONS))),
            next_release: AtomicU64::new(u64::MAX),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A policy as the store has it.
    pub(crate) fn policy_as_it_is(&self, name: &str) -> Option<Arc<Policy>> {
        Some(self.shared.members().get(name)?.policy())
    }

    /// One policy, looked up once: for many checks, or for checks without `await`.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<PolicyHandle<C>> {
        let member = self.shared.members().get(name)?.clone();
        Some(PolicyHandle::new(Arc::clone(&self.shared), member))
    }

    /// How many keys are remembered, those that became fresh since the last sweep included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.places.taken()
    }

    /// How many of them are this policy's and its family's; none, if there is no such policy.
    #[must_use]
    pub fn len_of(&self, policy: &str) -> usize {
        self.shared.members().get(policy).map_or(0, |member| member.table.len())
    }

    /// How many keys of all policies are remembered at most.
    #[must_use]
    pub fn max_keys(&self) -> usize {
        self.shared.places.max()
    }

    /// What the keys of a policy and its family take of what all policies share; `None`, if there is no such policy.
    #[must_use]
    pub fn usage_of(&self, policy: &str) -> Option<KeyUsage> {
        let members = self.shared.members();
        Some(self.shared.places.usage_of(members.get(policy)?.table.parts()))
    }

    /// Forgets every key of a policy and its family: they start fresh. Returns how many there were; `None`, if there is
    /// no such policy.
    pub fn purge(&self, policy: &str) -> Option<usize> {
        let table = Arc::clone(&self.shared.members().get(policy)?.table);
        Some(table.clear())
    }

    /// How much memory the logs of rolling windows, breakers and concurrency limits of all policies may take together,
    /// in bytes; 256 MiB by default. Each policy has its share, as of places for keys. When its part is used up, logs
    /// get coarser: keys may wait up to a window longer, and are never admitted more.
    pub fn set_max_bytes(&self, max: usize) {
        self.shared.places.set_max_bytes(max);
    }

    /// The bound that [`set_max_bytes`](Self::set_max_bytes) sets.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.shared.places.max_bytes()
    }

    /// How many bytes the logs of all policies take.
    #[must_use]
    pub fn log_bytes(&self) -> usize {
        self.shared.places.log_bytes()
    }

    /// How often logs were made coarser, because there was no memory for more.
    #[must_use]
    pub fn coarsened(&self) -> u64 {
        self.shared.places.coarsened()
    }

    /// How many overrides of single keys there may be, of all policies together; a million by default.
    pub fn set_max_overrides(&self, max: usize) {
        self.shared.places.set_max_overrides(max);
    }

    /// How many overrides of single keys there are, those that have expired since the last sweep included.
    #[must_use]
    pub fn override_count(&self) -> usize {
        self.shared.places.overrides()
    }

    /// Whether a key has an override. Costs one load where no key has one.
    #[must_use]
    #[inline]
    pub fn has_override(&self, policy: &str, key: &[u8]) -> bool {
        self.shared.places.overrides() > 0 && self.shared.has_override(policy, key)
    }

    /// How many charges went to overflow entries, because no slot was free.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.shared.places.overflowed()
    }

    /// How many keys that were not fresh were forgotten for others.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.shared.places.evicted()
    }

    /// How much may be remembered of reservations at once, held or settled, until they expire, in KiB; a tenth of
    /// `max_keys` by default, and at least 1 024. One of a single charge takes one, rarely two; others take more. Each
    /// policy is guaranteed `max / (2 · policies)` and may borrow from the other half; beyond that [`Store::reserve`]
    /// fails as overloaded.
    pub fn set_max_reservations(&self, max: usize) {
        lock(&self.shared.book).set_max(max);
    }

    /// About how much memory reservations take, in bytes.
    #[must_use]
    pub fn reservation_bytes(&self) -> usize {
        lock(&self.shared.book).bytes()
    }

    /// How many reservations are held under a policy or its family and not settled; none, if there is no
    /// such policy.
    #[must_use]
    pub fn reservations_of(&self, policy: &str) -> usize {
        let members = self.shared.members();
        let Some(of) = members.get(policy) else { return 0 };
        let family = members.iter().filter(|(_, member)| Arc::ptr_eq(&member.table, &of.table));
        let names: Vec<&str> = family.map(|(name, _)| &**name).collect();
        let book = lock(&self.shared.book);
        names.iter().map(|name| book.held_under(name)).sum()
    }

    /// The same for all policies at once, by the name of each but those that share the keys of another. Asking
    /// for many policies one by one would look at all of them for each.
    #[must_use]
    pub fn reservations(&self) -> HashMap<String, usize> {
        let members = self.shared.members();
        let mut held: HashMap<*const Table, usize> = HashMap::new();
        {
            let book = lock(&self.shared.book);
            for (name, member) in members.iter() {
                *held.entry(Arc::as_ptr(&member.table)).or_default() += book.held_under(name);
            }
        }
        let held_by =
            |base: &Member| held.get(&Arc::as_ptr(&base.table)).copied().unwrap_or_default();
        let bases = members.iter().filter(|(_, member)| member.is_base());
        bases.map(|(name, base)| (String::from(&**name), held_by(base))).collect()
    }

    /// Whether no key is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops every key whose state equals a fresh one. Happens by itself when room is needed.
    pub fn sweep(&self) {
        self.shared.tables().for_each(|table| table.sweep(self.shared.clock.now()));
    }
}

fn unknown(policy: &str) -> StoreError {
    StoreError::UnknownPolicy(policy.to_owned())
}

impl<C: Clock> Shared<C> {
    fn members(&self) -> RwLockReadGuard<'_, Members> {
        self.members.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every table once, in the order of their names.
    fn tables(&self) -> impl Iterator<Item = Arc<Table>> + use<C> {
        let members = self.members();
        let mut bases: Vec<_> = members.iter().filter(|(_, member)| member.is_base()).collect();
        bases.sort_by_key(|(name, _)| *name);
        let tables: Vec<_> = bases.iter().map(|(_, base)| Arc::clone(&base.table)).collect();
        tables.into_iter()
    }

    /// Zero marks a free slot, so no key has it.
    #[inline]
    fn fingerprint(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key).max(1)
    }

    fn check_one(&self, policy: &str, key: &[u8], cost: Cost) -> Result<Decision, StoreError> {
        let Some(units) = cost.plain() else {
            let answers = self.apply(Verb::Check, &[Charge::new(policy, key, cost)])?;
            return Ok(answers[0].decision);
        };
        let members = self.members();
        let member = members.get(policy).ok_or_else(|| unknown(policy))?;
        member.takes(units)?;
        let decision = self.check(member, key, units);
        if decision.retry_after().is_none() && member.policy().reserves_only() {
            return Err(StoreError::reserves_only(policy));
        }
        Ok(decision)
    }

    fn peek_one(&self, policy: &str, key: &[u8], cost: Cost) -> Result<Decision, StoreError> {
        let Some(units) = cost.plain() else {
            let answers = self.apply(Verb::Peek, &[Charge::new(policy, key, cost)])?;
            return Ok(answers[0].decision);
        };
        let members = self.members();
        let member = members.get(policy).ok_or_else(|| unknown(policy))?;
        member.takes(units)?;
        Ok(self.peek(member, key, units))
    }

    #[inline]
    fn check(&self, member: &Member, key: &[u8], cost: u64) -> Decision {
        let (key, now, found) = self.find(member, key);
        member.table.check_in(found, key.fingerprint, key, now, cost)
    }

    fn peek(&self, member: &Member, key: &[u8], cost: u64) -> Decision {
        let (key, now, _) = self.find(member, key);
        member.table.peek(key, now, cost)
    }

    /// What the table knows a key by, the instant to decide at, with what is due released, and where.
    #[inline]
    fn find<'m>(&self, member: &'m Member, key: &[u8]) -> (Key, Timestamp, Found<'m>) {
        let key = Key::new(self.fingerprint(key), member.variant);
        // Memory is fetched while the clock is read.
        let found = member.table.prefetch(key.fingerprint);
        let now = self.clock.now();
        self.release_before(now, || member.spot(key));
        (key, now, found)
    }
}

impl<C: Clock> Store for MemoryStore<C> {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.shared.set_policy(policy, None)
    }

    async fn set_policy_as(&self, policy: Policy, serving: Serving) -> Result<(), StoreError> {
        self.shared.set_policy(policy, Some(serving.on_full))
    }

    async fn set_variant(
        &self,
        of: &str,
        policy: Policy,
        migration: Migration,
    ) -> Result<(), StoreError> {
        self.shared.set_variant(of, policy, migration)
    }

    async fn remove_policy(&self, name: &str) -> Result<(), StoreError> {
        self.shared.remove_policy(name)
    }

    async fn remove_variants(&self, of: &str, names: &[&str]) -> Result<(), StoreError> {
        self.shared.remove_variants(of, names)
    }

    async fn keep_policy(&self, name: &str, text: &str) -> Result<KeptChange, StoreError> {
        lock(&self.shared.kept).keep(name, text)
    }

    async fn drop_kept_policy(&self, name: &str) -> Result<KeptChange, StoreError> {
        Ok(lock(&self.shared.kept).remove(name))
    }

    async fn kept_policies(&self, since: u64) -> Result<KeptChanges, StoreError> {
        Ok(lock(&self.shared.kept).changes(since))
    }

    async fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
        self.shared.reserve(hold)
    }

    async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
        self.shared.settle(id, with)
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        self.shared.apply(verb, charges)
    }

    #[inline]
    fn apply_one_now(&self, verb: Verb, charge: &Charge<'_>) -> Option<Result<Answer, StoreError>> {
        Some(self.shared.apply_one(verb, charge))
    }

    async fn set_override(&self, policy: &str, new: &KeyOverride) -> Result<(), StoreError> {
        self.shared.set_override(policy, new)
    }

    async fn clear_override(&self, policy: &str, key: &[u8]) -> Result<bool, StoreError> {
        self.shared.clear_override(policy, key)
    }

    async fn override_of(
        &self,
        policy: &str,
        key: &[u8],
    ) -> Result<Option<KeyOverride>, StoreError> {
        self.shared.override_of(policy, key)
    }

    async fn overrides(
        &self,
        policy: &str,
        after: Option<&str>,
        count: usize,
    ) -> Result<OverridePage, StoreError> {
        self.shared.overrides(policy, after, count)
    }

    /// Allocates nothing for a key that is known.
    async fn check_n(
        &self,
        policy: &str,
        key: impl AsRef<[u8]> + Send,
        cost: impl Into<Cost> + Send,
    ) -> Result<Decision, StoreError> {
        self.shared.check_one(policy, key.as_ref(), cost.into())
    }

    /// Allocates nothing for a key that is known.
    async fn peek_n(
        &self,
        policy: &str,
        key: impl AsRef<[u8]> + Send,
        cost: impl Into<Cost> + Send,
    ) -> Result<Decision, StoreError> {
        self.shared.peek_one(policy, key.as_ref(), cost.into())
    }

    fn answers_at_once(&self) -> bool {
        true
    }
}
