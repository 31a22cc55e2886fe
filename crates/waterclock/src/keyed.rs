use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use waterclock_core::{Decision, Outcome, Policy, Timestamp};

use crate::clock::{Clock, TscClock};
use crate::places::{DEFAULT_MAX_BYTES, OnFull, Places};
use crate::reservation::{HeldUnder, Reservation, Settle};
use crate::sync::Arc;
use crate::table::{Found, Table, Variant, copied};
use crate::wait::{Gate, Line, Place, Wait, WaitError, stand_back};

/// How many keys a limiter remembers by default.
pub(crate) const DEFAULT_MAX_KEYS: usize = 1_000_000;

/// One policy for many keys, in this process.
///
/// Keys are remembered by a seeded 64-bit hash of them, so the length of keys costs no memory; two
/// keys share a budget with a chance of about 2⁻⁶⁴ per pair. A check of a known key allocates nothing
/// (but for the log of an exact rolling window, which grows with what it admits).
///
/// Memory is bounded: at most [`max_keys`](KeyedLimiterBuilder::max_keys) keys, 1 000 000 by
/// default. Keys that answer as fresh ones are dropped along the way. When all places are taken,
/// [`on_full`](KeyedLimiterBuilder::on_full) says what gives way; a key that has used more than half never does.
/// If nothing gives way, new keys share overflow entries, each with one limit's worth: a flood of keys cannot open
/// a fresh budget for each of them.
///
/// ```
/// use waterclock::{KeyedLimiter, Limit};
///
/// let per_user: KeyedLimiter<String> = KeyedLimiter::new(Limit::per_minute(100).with_capacity(20));
/// assert!(per_user.check("alice").is_allowed());
/// assert_eq!(per_user.peek("alice").remaining(), Some(19));
/// ```
#[derive(Debug)]
pub struct KeyedLimiter<K: ?Sized, C = TscClock, S = ahash::RandomState> {
    table: Table,
    clock: C,
    hasher: S,
    line: Line,
    key: PhantomData<fn(&K)>,
}

impl<K: ?Sized + Hash> KeyedLimiter<K> {
    /// A limiter with the defaults: 1 000 000 keys, and [`TscClock`].
    pub fn new(policy: impl Into<Policy>) -> Self {
        Self::builder(policy).build()
    }

    /// A limiter with some of the defaults changed.
    pub fn builder(policy: impl Into<Policy>) -> KeyedLimiterBuilder<K> {
        KeyedLimiterBuilder {
            policy: policy.into(),
            max_keys: DEFAULT_MAX_KEYS,
            max_bytes: DEFAULT_MAX_BYTES,
            on_full: OnFull::default(),
            clock: TscClock::default(),
            hasher: ahash::RandomState::new(),
            key: PhantomData,
        }
    }
}

impl<K: ?Sized + Hash, C: Clock, S: BuildHasher> KeyedLimiter<K, C, S> {
    /// Decides about one unit for this key, and charges it if it is allowed.
    #[inline(always)]
    pub fn check<Q: ?Sized + Hash>(&self, key: &Q) -> Decision
    where
        K: Borrow<Q>,
    {
        self.check_n(key, 1)
    }

    /// Decides about `cost` units, and charges what is allowed. Where limits count different units, about so many
    /// of each.
    #[inline(always)]
    pub fn check_n<Q: ?Sized + Hash>(&self, key: &Q, cost: u64) -> Decision
    where
        K: Borrow<Q>,
    {
        let fingerprint = self.fingerprint(key);
        // Memory is fetched while the clock is read.
        let found = self.table.prefetch(fingerprint);
        let now = self.clock.now();
        self.check_found(found, fingerprint, now, cost)
    }

    #[inline(always)]
    fn check_found(
        &self,
        found: Found<'_>,
        fingerprint: u64,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        if self.line.is_empty() {
            return self.table.check_in(found, fingerprint, fingerprint, now, cost);
        }
        copied(&self.check_behind(fingerprint, now, cost))
    }

    /// A check while others wait, maybe for this key.
    #[cold]
    fn check_behind(&self, fingerprint: u64, now: Timestamp, cost: u64) -> Decision {
        match self.line.backlog(fingerprint) {
            0 => self.table.check(fingerprint, now, cost),
            backlog => stand_back(cost, backlog, |cost| self.table.peek(fingerprint, now, cost)),
        }
    }

    /// Holds one unit of this key, to be settled later.
    pub fn reserve<Q: ?Sized + Hash>(&self, key: &Q) -> Result<Reservation<'_>, Decision>
    where
        K: Borrow<Q>,
        S: Sync,
    {
        self.reserve_n(key, 1)
    }

    /// Holds `estimate` units of this key, to be settled later; the error is the refusal. In partial mode it
    /// holds what fits.
    pub fn reserve_n<Q: ?Sized + Hash>(
        &self,
        key: &Q,
        estimate: u64,
    ) -> Result<Reservation<'_>, Decision>
    where
        K: Borrow<Q>,
        S: Sync,
    {
        let (fingerprint, now) = (self.fingerprint(key), self.clock.now());
        let backlog = if self.line.is_empty() { 0 } else { self.line.backlog(fingerprint) };
        if backlog > 0 && estimate > 0 {
            let peek = |cost| self.table.peek(fingerprint, now, cost);
            return Err(stand_back(estimate, backlog, peek));
        }
        let (decision, held) = self.table.reserve(fingerprint, now, estimate);
        Ok(Reservation::new(self, fingerprint, decision, held.ok_or(decision)?))
    }

    /// Waits until one unit of this key is admitted.
    pub fn wait<Q: ?Sized + Hash>(&self, key: &Q) -> Wait<'_>
    where
        K: Borrow<Q>,
        S: Sync,
    {
        self.wait_n(key, 1)
    }

    /// Waits until `cost` units of this key are admitted.
    pub fn wait_n<Q: ?Sized + Hash>(&self, key: &Q, cost: u64) -> Wait<'_>
    where
        K: Borrow<Q>,
        S: Sync,
    {
        Wait::new(KeyedGate { limiter: self, fingerprint: self.fingerprint(key) }, cost)
    }

    /// Decides about many keys, each on its own, one unit each: one clock read, and memory that is
    /// fetched for several keys at once. The answers are in the order of the keys.
    pub fn check_batch<'a, Q: ?Sized + Hash + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Vec<Decision>
    where
        K: Borrow<Q>,
    {
        let keys = keys.into_iter();
        let mut decisions = Vec::with_capacity(keys.size_hint().0);
        self.check_each(keys, |decision| decisions.push(decision));
        decisions
    }

    /// As [`check_batch`](Self::check_batch), without a vector: `answer` gets each decision in turn.
    #[inline]
    pub fn check_each<'a, Q: ?Sized + Hash + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
        mut answer: impl FnMut(Decision),
    ) where
        K: Borrow<Q>,
    {
        let fingerprints = keys.into_iter().map(|key| (self.fingerprint(key), ()));
        let now = self.clock.now();
        self.table.in_batches(fingerprints, |found, fingerprint, ()| {
            answer(self.check_found(found, fingerprint, now, 1));
        });
    }

    /// Decides about one unit and charges nothing.
    pub fn peek<Q: ?Sized + Hash>(&self, key: &Q) -> Decision
    where
        K: Borrow<Q>,
    {
        self.peek_n(key, 1)
    }

    /// Decides about `cost` units and charges nothing.
    pub fn peek_n<Q: ?Sized + Hash>(&self, key: &Q, cost: u64) -> Decision
    where
        K: Borrow<Q>,
    {
        self.table.peek(self.fingerprint(key), self.clock.now(), cost)
    }

    /// Charges `cost` units of this key that were used already, whatever there is room for and into debt
    /// if need be: for a cost that is only known afterwards.
    pub fn debit<Q: ?Sized + Hash>(&self, key: &Q, cost: u64)
    where
        K: Borrow<Q>,
    {
        self.table.debit(self.fingerprint(key), self.clock.now(), cost);
    }

    /// Tells how something that was admitted for this key ended: true, or [`Outcome::Ok`], if well. Only
    /// limits by the share of errors care.
    pub fn report<Q: ?Sized + Hash>(&self, key: &Q, outcome: impl Into<Outcome>)
    where
        K: Borrow<Q>,
    {
        let fingerprint = self.fingerprint(key);
        self.table.report(fingerprint, self.clock.now(), outcome.into());
        self.line.nudge(fingerprint);
    }

    /// Gives back up to `cost` units that were charged before. A key that found no place when the table
    /// was full gets nothing back: what it shares was paid for by others too.
    pub fn refund<Q: ?Sized + Hash>(&self, key: &Q, cost: u64)
    where
        K: Borrow<Q>,
    {
        let fingerprint = self.fingerprint(key);
        self.table.refund(fingerprint, self.clock.now(), cost);
        self.line.nudge(fingerprint);
    }

    /// Clears a key. The entry that keys without a place share in a full table stays as it is.
    pub fn reset<Q: ?Sized + Hash>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let fingerprint = self.fingerprint(key);
        self.table.reset(fingerprint);
        self.line.nudge(fingerprint);
    }

    /// Applies another policy from now on. Limits with the same name and algorithm keep what was
    /// spent; others start fresh (ask [`Policy::starts_fresh`] before). Keys move over a few
    /// hundred at a time, so that checks wait only briefly.
    pub fn set_policy(&self, policy: impl Into<Policy>) {
        // Nothing stands in the way of a policy that shares its keys with no other.
        _ = self.table.set_policy(Variant::BASE, &Arc::new(policy.into()), self.clock.now());
        self.line.nudge_all();
    }

    /// The policy it applies.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.table.policy(Variant::BASE)
    }

    /// Drops every key that answers as a fresh one would. Happens by itself when room is needed.
    pub fn sweep(&self) {
        self.table.sweep(self.clock.now());
    }

    /// How many keys are remembered, those that became fresh since the last sweep included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no key is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Zero marks a free slot, so no key has it.
    #[inline]
    fn fingerprint<Q: ?Sized + Hash>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key).max(1)
    }
}

impl<K: ?Sized, C: Clock, S: Sync> Settle for KeyedLimiter<K, C, S> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn settle(&self, fingerprint: u64, held: &HeldUnder, used: u64) {
        self.table.settle(fingerprint, self.clock.now(), held, used);
        self.line.nudge(fingerprint);
    }

    fn release(&self, fingerprint: u64, held: &HeldUnder) {
        self.table.release(fingerprint, self.clock.now(), held);
        self.line.nudge(fingerprint);
    }
}

struct KeyedGate<'a, K: ?Sized, C, S> {
    limiter: &'a KeyedLimiter<K, C, S>,
    fingerprint: u64,
}

impl<K: ?Sized, C: Clock, S: Sync> Gate for KeyedGate<'_, K, C, S> {
    fn now(&self) -> Timestamp {
        self.limiter.clock.now()
    }

    fn peek(&self, cost: u64) -> Decision {
        self.limiter.table.peek(self.fingerprint, self.now(), cost)
    }

    fn check(&self, cost: u64) -> Decision {
        self.limiter.table.check(self.fingerprint, self.now(), cost)
    }

    fn refund(&self, cost: u64) {
        self.limiter.table.refund(self.fingerprint, self.now(), cost);
    }

    fn join(&self, cost: u64, most: usize) -> Result<Place<'_>, WaitError> {
        self.limiter.line.join(self.fingerprint, cost, most)
    }
}

/// Builds a [`KeyedLimiter`].
#[derive(Debug)]
#[must_use]
pub struct KeyedLimiterBuilder<K: ?Sized, C = TscClock, S = ahash::RandomState> {
    policy: Policy,
    max_keys: usize,
    max_bytes: usize,
    on_full: OnFull,
    clock: C,
    hasher: S,
    key: PhantomData<fn(&K)>,
}

impl<K: ?Sized + Hash, C: Clock, S: BuildHasher> KeyedLimiterBuilder<K, C, S> {
    /// How many keys are remembered at most. At least one is.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys.max(1);
        self
    }

    /// How much memory the logs of rolling windows, breakers and concurrency limits may take, in bytes; 256 MiB by
    /// default. When it is used up, logs get coarser: keys may wait up to a window longer, and are never admitted more.
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// What happens to a new key when so many are remembered.
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }

    /// Another source of time.
    pub fn clock<D: Clock>(self, clock: D) -> KeyedLimiterBuilder<K, D, S> {
        let Self { policy, max_keys, max_bytes, on_full, hasher, key, .. } = self;
        KeyedLimiterBuilder { policy, max_keys, max_bytes, on_full, clock, hasher, key }
    }

    /// Another hash. Where clients choose the keys it must be seeded and resist chosen keys: two
    /// keys with one hash share a budget.
    pub fn hasher<T: BuildHasher>(self, hasher: T) -> KeyedLimiterBuilder<K, C, T> {
        let Self { policy, max_keys, max_bytes, on_full, clock, key, .. } = self;
        KeyedLimiterBuilder { policy, max_keys, max_bytes, on_full, clock, hasher, key }
    }

    /// The limiter.
    pub fn build(self) -> KeyedLimiter<K, C, S> {
        let places = Arc::new(Places::new(self.max_keys, self.max_bytes));
        let table = Table::new(&Arc::new(self.policy), &places);
        table.set_on_full(self.on_full);
        KeyedLimiter {
            table,
            clock: self.clock,
            hasher: self.hasher,
            line: Line::default(),
            key: PhantomData,
        }
    }
}
