//! The table of keyed state: bounded, growing and sweeping itself in small steps.
//!
//! A key is known by a 64-bit fingerprint. Its top bits choose a shard; a shard is a small open
//! table under a lock of its own (see [`shard`]). No step is larger than rebuilding one shard, and
//! there are enough shards that this stays in the microseconds.

mod family;
mod layout;
mod locked;
mod prefetch;
mod rebuild;
mod saved;
mod shard;
mod states;

use waterclock_core::store::{Decide as _, Migration};
use waterclock_core::{Cost, Decision, Outcome, Policy, Timestamp};

use crate::places::{OnFull, Parts, Places};
use crate::reservation::HeldUnder;
use crate::store::StoreError;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering, lock};
pub(crate) use family::{Family, Key, Variant};
pub(crate) use locked::Locked;
use prefetch::{Hint, fetch};
use rebuild::Rebuild;
pub(crate) use saved::{Saved, ShardRange, WrittenBy};
pub(crate) use shard::Shard;

/// Keys per shard when the table is full: rebuilding a shard is what bounds the longest pause.
const KEYS_PER_SHARD: usize = 1_024;
const MAX_SHARD_BITS: u32 = 16;
/// How many keys of a batch are fetched from memory at once.
const BATCH: usize = 16;

/// Two shards never share a cache line.
#[repr(align(64))]
#[derive(Debug)]
struct Cell(Mutex<Shard>);

#[derive(Debug)]
pub(crate) struct Table {
    cells: Box<[Cell]>,
    /// Where the shards keep their buckets.
    hints: Box<[Hint]>,
    /// 64 − log2(shards): how far to shift a fingerprint to get its shard.
    shift: u32,
    places: Arc<Places>,
    parts: Arc<Parts>,
    /// Whether keys are forgotten for others.
    evicts: AtomicBool,
    /// The shards to look through next when a key found no place: for fresh keys, and for others.
    sweep: AtomicUsize,
    evict: AtomicUsize,
    /// The family as every shard has it, or will have it when a change is done. ReservedUnits while it changes:
    /// two changes at once would leave shards of either.
    family: Mutex<Arc<Family>>,
    /// Whether a policy that counts several units has ever been a member: others need not be asked.
    counted_several: AtomicBool,
    /// Whether one that keeps logs has.
    kept_logs: AtomicBool,
}

impl Table {
    /// The only table that has these places.
    pub(crate) fn new(policy: &Arc<Policy>, places: &Arc<Places>) -> Self {
        let wanted = (places.max() / KEYS_PER_SHARD).max(1);
        let bits = wanted.next_power_of_two().ilog2().clamp(1, MAX_SHARD_BITS);
        let shards = 0..1_usize << bits;
        let family = Arc::new(Family::new(policy));
        let parts = Arc::<Parts>::default();
        Self {
            cells: shards
                .clone()
                .map(|_| Cell(Mutex::new(Shard::new(&family, places, &parts))))
                .collect(),
            hints: shards.map(|_| Hint::default()).collect(),
            shift: 64 - bits,
            places: Arc::clone(places),
            parts,
            evicts: AtomicBool::new(true),
            sweep: AtomicUsize::new(0),
            evict: AtomicUsize::new(0),
            family: Mutex::new(family),
            counted_several: AtomicBool::new(policy.counts_several()),
            kept_logs: AtomicBool::new(policy.keeps_logs()),
        }
    }

    /// One of several tables that share these places.
    pub(crate) fn sharing(policy: &Arc<Policy>, places: &Arc<Places>) -> Arc<Self> {
        let table = Arc::new(Self::new(policy, places));
        places.share_with(&table.parts, Arc::downgrade(&table));
        table
    }

    pub(crate) fn set_on_full(&self, on_full: OnFull) {
        self.evicts.store(on_full == OnFull::Evict, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn shard_of(&self, fingerprint: u64) -> usize {
        usize::try_from(fingerprint >> self.shift).unwrap_or(0)
    }

    /// The shard with this number. Several are always locked in ascending order.
    #[inline]
    pub(crate) fn lock(&self, shard: usize) -> Locked<'_> {
        Locked { shard: lock(&self.cells[shard].0), number: shard, table: self }
    }

    /// The same, with what `now` is for it.
    fn lock_at(&self, shard: usize, now: Timestamp) -> (Locked<'_>, Timestamp) {
        let mut locked = self.lock(shard);
        let now = locked.shard.latest(now);
        (locked, now)
    }

    #[inline]
    pub(crate) fn check(&self, key: impl Into<Key>, now: Timestamp, cost: u64) -> Decision {
        let key = key.into();
        let number = self.shard_of(key.fingerprint);
        let mut shard = lock(&self.cells[number].0);
        let now = shard.latest(now);
        if !shard.is_tagged()
            && let Some(at) = shard.find(key.fingerprint)
        {
            return shard.check_at(at, now, cost);
        }
        self.check_at_length(Locked { shard, number, table: self }, key, now, cost)
    }

    /// A check under a member that may have been removed; `None` if it was.
    pub(crate) fn check_current(&self, key: Key, now: Timestamp, cost: u64) -> Option<Decision> {
        let (mut locked, now) = self.lock_at(self.shard_of(key.fingerprint), now);
        if locked.shard.is_tagged()
            && let Some(decision) = locked.shard.check_again(key, now, cost)
        {
            return Some(decision);
        }
        locked.shard.has(key.under).then(|| self.check_at_length(locked, key, now, cost))
    }

    /// The same for a peek.
    pub(crate) fn peek_current(&self, key: Key, now: Timestamp, cost: u64) -> Option<Decision> {
        let (locked, now) = self.lock_at(self.shard_of(key.fingerprint), now);
        locked.shard.has(key.under).then(|| locked.shard.peek(key, now, cost))
    }

    /// A check of a new key, or of one that several policies share.
    #[inline(never)]
    fn check_at_length<'a>(
        &'a self,
        mut locked: Locked<'a>,
        key: Key,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        if locked.shard.is_tagged()
            && let Some(decision) = locked.shard.check_again(key, now, cost)
        {
            return decision;
        }
        if !self.has_place() && !locked.shard.knows(key.fingerprint) {
            let number = locked.number;
            drop(locked);
            self.places.make_room(self, now);
            locked = self.lock(number);
        }
        let now = locked.shard.latest(now);
        if locked.shard.policy(key.under).reserves_only() {
            return locked.shard.refuse_check(key, now, &cost.into());
        }
        let cost = Cost::from(cost);
        let verdict = locked.shard.judge(key, now, &cost);
        locked.record(key, now, &cost, verdict);
        locked.shard.answer(key, now, &cost, verdict)
    }

    /// Starts to fetch what a check of this fingerprint will need.
    #[inline]
    pub(crate) fn prefetch(&self, fingerprint: u64) {
        let shard = self.shard_of(fingerprint);
        fetch(&self.cells[shard]);
        self.hints[shard].fetch(fingerprint);
    }

    /// Calls `decide` for each fingerprint in turn, with the memory of several fetched at once.
    /// Whatever comes with a fingerprint is passed on.
    #[inline]
    pub(crate) fn in_batches<T: Copy + Default>(
        &self,
        fingerprints: impl Iterator<Item = (u64, T)>,
        mut decide: impl FnMut(u64, T),
    ) {
        let mut fingerprints = fingerprints.fuse();
        loop {
            let mut batch = [(0, T::default()); BATCH];
            let mut len = 0;
            for (slot, next) in batch.iter_mut().zip(&mut fingerprints) {
                *slot = next;
                len += 1;
                self.prefetch(next.0);
            }
            batch[..len].iter().for_each(|&(fingerprint, with)| decide(fingerprint, with));
            if len < BATCH {
                return;
            }
        }
    }

    pub(crate) fn peek(&self, key: impl Into<Key>, now: Timestamp, cost: u64) -> Decision {
        let key = key.into();
        let (locked, now) = self.lock_at(self.shard_of(key.fingerprint), now);
        locked.shard.peek(key, now, cost)
    }

    pub(crate) fn debit(&self, fingerprint: u64, now: Timestamp, cost: u64) {
        self.make_room_for(fingerprint, now);
        let (mut locked, now) = self.lock_at(self.shard_of(fingerprint), now);
        locked.debit(fingerprint.into(), now, &cost.into());
    }

    pub(crate) fn report(&self, fingerprint: u64, now: Timestamp, outcome: Outcome) {
        self.make_room_for(fingerprint, now);
        let (mut locked, now) = self.lock_at(self.shard_of(fingerprint), now);
        locked.report(fingerprint.into(), now, outcome, &1.into());
    }

    /// A check that can be settled, if it is admitted.
    pub(crate) fn reserve(
        &self,
        fingerprint: u64,
        now: Timestamp,
        estimate: u64,
    ) -> (Decision, Option<HeldUnder>) {
        self.make_room_for(fingerprint, now);
        let (key, estimate) = (Key::from(fingerprint), Cost::from(estimate));
        let (mut locked, now) = self.lock_at(self.shard_of(fingerprint), now);
        let verdict = locked.shard.judge(key, now, &estimate);
        let policy = Arc::clone(locked.shard.policy(key.under));
        let held = if verdict.holds(&policy) {
            let held = locked.hold(key, now, &estimate, verdict, Timestamp::MAX);
            Some(HeldUnder { policy: Some(policy), held })
        } else {
            locked.record(key, now, &estimate, verdict);
            None
        };
        (locked.shard.answer(key, now, &estimate, verdict), held)
    }

    pub(crate) fn settle(&self, fingerprint: u64, now: Timestamp, held: &HeldUnder, used: u64) {
        let (mut locked, now) = self.lock_at(self.shard_of(fingerprint), now);
        if let Some(policy) = &held.policy {
            locked.settle(fingerprint.into(), now, policy, &held.held, &used.into());
        }
    }

    /// Frees the units of concurrency limits, and nothing else.
    pub(crate) fn release(&self, fingerprint: u64, now: Timestamp, held: &HeldUnder) {
        let (mut locked, now) = self.lock_at(self.shard_of(fingerprint), now);
        if let Some(policy) = &held.policy {
            locked.shard.release(fingerprint.into(), now, policy, &held.held);
        }
    }

    pub(crate) fn refund(&self, fingerprint: u64, now: Timestamp, cost: u64) {
        let (mut locked, now) = self.lock_at(self.shard_of(fingerprint), now);
        locked.shard.refund(fingerprint.into(), now, &cost.into());
    }

    pub(crate) fn reset(&self, fingerprint: u64) {
        self.lock(self.shard_of(fingerprint)).shard.reset(fingerprint);
    }

    /// Forgets every key. Returns how many there were, those that became fresh since the last sweep included.
    pub(crate) fn clear(&self) -> usize {
        let clear = |shard| {
            let mut locked = self.lock(shard);
            let keys = locked.shard.clear();
            self.places.give_back(&self.parts, keys);
            locked.publish_extent();
            keys
        };
        (0..self.cells.len()).map(clear).sum()
    }

    /// A member's policy, as the first shard has it.
    pub(crate) fn policy(&self, variant: Variant) -> Arc<Policy> {
        Arc::clone(self.lock(0).shard.policy(variant))
    }

    /// Applies another policy in a member's place, shard by shard; what was spent stays spent.
    pub(crate) fn set_policy(
        &self,
        variant: Variant,
        policy: &Arc<Policy>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.note_kind(policy);
        self.change(now, |family| family.replace(variant, policy))
    }

    /// Adds a policy that shares the keys, or replaces the one of its name.
    pub(crate) fn set_variant(
        &self,
        policy: &Arc<Policy>,
        migration: Migration,
        now: Timestamp,
    ) -> Result<Variant, StoreError> {
        self.note_kind(policy);
        self.change(now, |family| family.add(policy, migration))
    }

    fn note_kind(&self, policy: &Policy) {
        if policy.counts_several() {
            self.counted_several.store(true, Ordering::Relaxed);
        }
        if policy.keeps_logs() {
            self.kept_logs.store(true, Ordering::Relaxed);
        }
    }

    /// Whether one number may not be a cost for every member.
    #[inline]
    pub(crate) fn may_count_several(&self) -> bool {
        self.counted_several.load(Ordering::Relaxed)
    }

    /// Removes policies that share the keys; those go on under the one that the family is named by.
    pub(crate) fn remove_variants(&self, variants: &[Variant], now: Timestamp) {
        // Removing a variant cannot fail.
        _ = self.change(now, |family| {
            variants.iter().for_each(|variant| family.remove(*variant));
            Ok(())
        });
    }

    /// How many keys are remembered, those that became fresh since the last sweep included.
    pub(crate) fn len(&self) -> usize {
        self.parts.keys.taken()
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Whether there may be a place for one more key.
    pub(crate) fn has_place(&self) -> bool {
        self.places.has_place(&self.parts) && self.has_log_room()
    }

    /// Whether there may be memory for the logs of one more key.
    pub(crate) fn has_log_room(&self) -> bool {
        !self.kept_logs.load(Ordering::Relaxed) || self.places.has_log_room(&self.parts)
    }

    /// Tries to find a place for a key if it is new. Locks shards: the caller holds none.
    #[inline]
    pub(crate) fn make_room_for(&self, fingerprint: u64, now: Timestamp) {
        if !self.has_place() && !self.lock(self.shard_of(fingerprint)).shard.knows(fingerprint) {
            self.places.make_room(self, now);
        }
    }

    fn change<T>(
        &self,
        now: Timestamp,
        change: impl FnOnce(&mut Family) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut current = lock(&self.family);
        let mut next = Family::clone(&current);
        let changed = change(&mut next)?;
        let only_adds = next.only_adds_to(&current);
        let next = Arc::new(next);
        if only_adds {
            (0..self.cells.len()).for_each(|shard| self.lock(shard).shard.join(&next));
        } else {
            self.rebuild_all(Rebuild::Under(&next), now);
        }
        *current = next;
        Ok(changed)
    }

    /// Drops everything that answers as a fresh key would, and the memory it took.
    pub(crate) fn sweep(&self, now: Timestamp) {
        self.rebuild_all(Rebuild::Smaller, now);
    }

    fn rebuild_all(&self, how: Rebuild<'_>, now: Timestamp) {
        for shard in 0..self.cells.len() {
            let (mut locked, now) = self.lock_at(shard, now);
            locked.rebuild(how, now);
        }
    }

    /// Drops what is fresh in the next shard, if there may be something.
    pub(crate) fn sweep_one(&self, now: Timestamp) {
        let next = self.sweep.fetch_add(1, Ordering::Relaxed) % self.cells.len();
        let (mut locked, now) = self.lock_at(next, now);
        if locked.shard.may_free(now) {
            locked.rebuild(Rebuild::Tidy, now);
        }
    }

    /// Whether keys are forgotten for others.
    pub(crate) fn gives_way(&self) -> bool {
        self.evicts.load(Ordering::Relaxed)
    }

    /// Frees some places of the next shard; returns how many.
    pub(crate) fn free_some(&self, now: Timestamp) -> usize {
        let next = self.evict.fetch_add(1, Ordering::Relaxed) % self.cells.len();
        let (mut locked, now) = self.lock_at(next, now);
        locked.free_some(now)
    }

    /// Makes the longest log of the next shard coarser; whether there is memory for one more then.
    pub(crate) fn coarsen_some(&self, now: Timestamp) -> bool {
        let next = self.evict.fetch_add(1, Ordering::Relaxed) % self.cells.len();
        self.lock_at(next, now).0.shard.coarsen_longest();
        self.has_log_room()
    }
}

/// The places of a table that is gone are free.
impl Drop for Table {
    fn drop(&mut self) {
        self.places.give_all_back(&self.parts);
    }
}
