//! The table of keyed state: bounded, growing and sweeping itself in small steps.
//!
//! A key is known by a 64-bit fingerprint. Its top bits choose a shard; a shard is a small open
//! table under a lock of its own (see [`shard`]). No step is larger than rebuilding one shard, and
//! there are enough shards that this stays in the microseconds.

mod check;
mod family;
mod in_full;
mod layout;
mod locked;
mod prefetch;
mod rebuild;
mod saved;
mod shard;
mod shards;
mod special;
mod states;

use std::ops::RangeInclusive;

use waterclock_core::store::{Decide as _, Migration};
use waterclock_core::{Cost, Decision, Factor, Outcome, Policy, Timestamp};

use crate::places::{OnFull, Parts, Places};
use crate::reservation::HeldUnder;
use crate::store::{Answer, StoreError, Verb};
use crate::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering, lock, try_lock};
pub(crate) use check::copied;
pub(crate) use family::{Family, Key, Variant};
pub(crate) use locked::Locked;
use rebuild::Rebuild;
pub(crate) use saved::{Saved, ShardRange, WrittenBy};
pub(crate) use shard::Shard;
pub(crate) use shards::Found;
use shards::Stages;
pub(crate) use special::{Kept, PolicyRef, Standing};

/// Keys per shard when the table is full: rebuilding a shard is what bounds the longest pause.
const KEYS_PER_SHARD: usize = 1_024;
const MAX_SHARD_BITS: u32 = 16;

#[derive(Debug)]
pub(crate) struct Table {
    stages: Stages,
    places: Arc<Places>,
    parts: Arc<Parts>,
    /// Whether keys are forgotten for others.
    evicts: AtomicBool,
    /// The shards to look through next when a key found no place: for fresh keys, and for others.
    sweep: AtomicUsize,
    evict: AtomicUsize,
    /// The family as every shard has it, or will have it when a change is done. Held while it changes:
    /// two changes at once would leave shards of either. Also while the table grows.
    family: Mutex<Arc<Family>>,
    /// Whether a policy that counts several units has ever been a member: others need not be asked.
    counted_several: AtomicBool,
    /// Whether one that keeps logs has.
    kept_logs: AtomicBool,
    /// How many overrides were ever set: they need shards, as keys do.
    kept: AtomicUsize,
}

impl Table {
    /// The only table that has these places.
    pub(crate) fn new(policy: &Arc<Policy>, places: &Arc<Places>) -> Self {
        let family = Arc::new(Family::new(policy));
        let parts = Arc::<Parts>::default();
        Self::with(Stages::all(&family, places, &parts), family, places, parts)
    }

    /// One of several tables that share these places.
    pub(crate) fn sharing(policy: &Arc<Policy>, places: &Arc<Places>) -> Arc<Self> {
        let family = Arc::new(Family::new(policy));
        let parts = Arc::<Parts>::default();
        let stages = Stages::few(&family, places, &parts);
        let table = Arc::new(Self::with(stages, family, places, parts));
        places.share_with(&table.parts, Arc::downgrade(&table));
        table
    }

    fn with(stages: Stages, family: Arc<Family>, places: &Arc<Places>, parts: Arc<Parts>) -> Self {
        let kept_logs = family.base().keeps_logs();
        Self {
            stages,
            places: Arc::clone(places),
            parts,
            evicts: AtomicBool::new(true),
            sweep: AtomicUsize::new(0),
            evict: AtomicUsize::new(0),
            counted_several: AtomicBool::new(family.base().counts_several()),
            family: Mutex::new(family),
            kept_logs: AtomicBool::new(kept_logs),
            kept: AtomicUsize::new(0),
        }
    }

    pub(crate) fn set_on_full(&self, on_full: OnFull) {
        self.evicts.store(on_full == OnFull::Evict, Ordering::Relaxed);
    }

    /// The shard of a fingerprint, for as long as the table does not grow: while one of its shards is locked, or after that
    /// only as a guess.
    #[inline]
    pub(crate) fn shard_of(&self, fingerprint: u64) -> usize {
        self.stages.current().of(fingerprint)
    }

    /// The shard with this number; `None` if it has moved. Several are always locked in ascending order.
    pub(crate) fn lock_number(&self, number: usize) -> Option<Locked<'_>> {
        let shards = self.stages.current();
        let shard = shards.lock(number);
        (!shard.has_moved()).then_some(Locked { shard, number, shards, table: self })
    }

    /// The shard of a fingerprint.
    pub(crate) fn lock(&self, fingerprint: u64) -> Locked<'_> {
        loop {
            // If it has moved, there are more shards now; which happens twice at most.
            if let Some(locked) = self.lock_number(self.shard_of(fingerprint))
                && locked.contains(fingerprint)
            {
                return locked;
            }
        }
    }

    /// The same, with what `now` is for it.
    fn lock_at(&self, fingerprint: u64, now: Timestamp) -> (Locked<'_>, Timestamp) {
        let mut locked = self.lock(fingerprint);
        let now = locked.shard.latest(now);
        (locked, now)
    }

    /// Every shard with fingerprints of a range, one after the other. One that is split meanwhile comes in parts.
    fn visit(&self, range: RangeInclusive<u64>, mut each: impl FnMut(Locked<'_>)) {
        let mut next = Some(*range.start());
        while let Some(start) = next.filter(|start| start <= range.end()) {
            let locked = self.lock(start);
            next = locked.range().next();
            each(locked);
        }
    }

    /// Moves keys to more shards if there are many for those in use. Locks shards: the caller holds none.
    #[inline]
    fn grow_for(&self, keys: usize) {
        if self.stages.is_crowded(keys) {
            // Another thread that holds it grows the table, too, or changes its policies.
            let Some(family) = try_lock(&self.family) else { return };
            if self.stages.is_crowded(keys) {
                self.stages.grow(&family, &self.places, &self.parts);
            }
        }
    }

    pub(crate) fn peek(&self, key: impl Into<Key>, now: Timestamp, cost: u64) -> Decision {
        let key = key.into();
        let (locked, now) = self.lock_at(key.fingerprint, now);
        locked.shard.peek(key, now, cost)
    }

    /// A check or a peek with all that there is to say; `None` under a member that was removed.
    pub(crate) fn answer(
        &self,
        key: Key,
        now: Timestamp,
        cost: &Cost,
        verb: Verb,
    ) -> Result<Option<Answer>, StoreError> {
        let charges = verb == Verb::Check;
        if charges {
            self.make_room_for(key.fingerprint, now);
        }
        let (mut locked, now) = self.lock_at(key.fingerprint, now);
        if key.under != Variant::BASE && !locked.shard.has(key.under) {
            return Ok(None);
        }
        let standing = locked.shard.standing(key, now);
        if standing != Standing::Limited {
            return Ok(Some(locked.shard.answer_standing(standing, key, now, cost)));
        }
        let policy = locked.shard.policy_for(key, now);
        if charges && !cost.is_zero() && policy.reserves_only() {
            return Err(StoreError::reserves_only(policy.name()));
        }
        drop(policy);
        let verdict = locked.shard.judge(key, now, cost);
        if charges {
            locked.record(key, now, cost, verdict);
        }
        Ok(Some(locked.shard.answer_in_full(key, now, cost, verdict)))
    }

    pub(crate) fn debit(&self, fingerprint: u64, now: Timestamp, cost: u64) {
        self.make_room_for(fingerprint, now);
        let (mut locked, now) = self.lock_at(fingerprint, now);
        locked.debit(fingerprint.into(), now, &cost.into());
    }

    pub(crate) fn report(&self, fingerprint: u64, now: Timestamp, outcome: Outcome) {
        self.make_room_for(fingerprint, now);
        let (mut locked, now) = self.lock_at(fingerprint, now);
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
        let (mut locked, now) = self.lock_at(fingerprint, now);
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
        let (mut locked, now) = self.lock_at(fingerprint, now);
        if let Some(policy) = &held.policy {
            locked.settle(fingerprint.into(), now, policy, &held.held, &used.into());
        }
    }

    /// Frees the units of concurrency limits, and nothing else.
    pub(crate) fn release(&self, fingerprint: u64, now: Timestamp, held: &HeldUnder) {
        let (mut locked, now) = self.lock_at(fingerprint, now);
        if let Some(policy) = &held.policy {
            locked.shard.release(fingerprint.into(), now, policy, &held.held);
        }
    }

    pub(crate) fn refund(&self, fingerprint: u64, now: Timestamp, cost: u64) {
        let (mut locked, now) = self.lock_at(fingerprint, now);
        locked.shard.refund(fingerprint.into(), now, &cost.into());
    }

    pub(crate) fn reset(&self, fingerprint: u64) {
        self.lock(fingerprint).shard.reset(fingerprint);
    }

    /// Forgets every key. Returns how many there were, those that became fresh since the last sweep included.
    pub(crate) fn clear(&self) -> usize {
        let mut all = 0;
        self.visit(0..=u64::MAX, |mut locked| {
            let keys = locked.shard.clear();
            self.places.give_back(&self.parts, keys);
            locked.publish_extent();
            all += keys;
        });
        all
    }

    /// The policy that decides about a key. One without limits, if the key is exempt.
    pub(crate) fn policy_for(&self, key: Key, now: Timestamp) -> Arc<Policy> {
        let (locked, now) = self.lock_at(key.fingerprint, now);
        let policy = locked.shard.policy_for(key, now).to_arc();
        match locked.shard.standing(key, now) {
            Standing::Exempt => policy.scaled(policy.name(), Factor::ZERO).map_or(policy, Arc::new),
            _ => policy,
        }
    }

    /// Fails if the limits that a key is asked under cannot be scaled so far.
    pub(crate) fn check_scale(&self, key: Key, factor: Factor) -> Result<(), StoreError> {
        let family = Arc::clone(self.lock(key.fingerprint).shard.family());
        Ok(family.check_scale(key.under, factor)?)
    }

    /// Gives a key an override, or another one; the one it had.
    pub(crate) fn set_kept(&self, fingerprint: u64, kept: Kept) -> Option<Arc<Kept>> {
        if let Some(own) = &kept.own {
            self.note_kind(own);
        }
        self.grow_for(self.len() + self.kept.load(Ordering::Relaxed));
        let mut locked = self.lock(fingerprint);
        let before = locked.shard.set_kept(fingerprint, kept);
        locked.publish_extent();
        if before.is_none() {
            self.kept.fetch_add(1, Ordering::Relaxed);
        }
        before
    }

    /// Takes the override of a key away; the one it had.
    pub(crate) fn clear_kept(&self, fingerprint: u64) -> Option<Arc<Kept>> {
        self.lock(fingerprint).shard.clear_kept(fingerprint)
    }

    /// The override of a key, unless it has expired.
    pub(crate) fn kept(&self, fingerprint: u64, now: Timestamp) -> Option<Arc<Kept>> {
        self.lock(fingerprint).shard.kept(fingerprint, now).cloned()
    }

    /// Overrides behind a fingerprint, in the order of these: at least so many, unless there are no more.
    pub(crate) fn kept_after(
        &self,
        after: u64,
        count: usize,
        now: Timestamp,
    ) -> Vec<(u64, Arc<Kept>)> {
        let mut found = Vec::new();
        let mut next = after.checked_add(1);
        while let Some(first) = next.filter(|_| found.len() < count) {
            let locked = self.lock(first);
            next = locked.range().next();
            let is_next = |(fingerprint, kept): &(u64, &Arc<Kept>)| {
                *fingerprint >= first && now < kept.expires_at
            };
            let kept = locked.shard.all_kept().filter(is_next);
            let mut here: Vec<_> = kept.map(|(at, kept)| (at, Arc::clone(kept))).collect();
            here.sort_unstable_by_key(|(fingerprint, _)| *fingerprint);
            here.truncate(count - found.len());
            found.extend(here);
        }
        found
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

    /// The same, and whether the shards are enough for it.
    pub(crate) fn has_room(&self) -> bool {
        !self.stages.is_crowded(self.len()) && self.has_place()
    }

    /// Tries to find a place for a key if it is new. Locks shards: the caller holds none.
    #[inline]
    pub(crate) fn make_room_for(&self, fingerprint: u64, now: Timestamp) {
        if !self.has_room() && !self.lock(fingerprint).shard.knows(fingerprint) {
            self.make_room(now);
        }
    }

    #[inline(never)]
    fn make_room(&self, now: Timestamp) {
        self.grow_for(self.len());
        if !self.has_place() {
            self.places.make_room(self, now);
        }
    }

    /// The names of the policies that share the keys, without the one that the family is named by.
    pub(crate) fn variants(&self) -> Vec<Box<str>> {
        lock(&self.family).variants().map(|(_, policy)| policy.name().into()).collect()
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
            self.visit(0..=u64::MAX, |mut locked| locked.shard.join(&next));
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
        self.visit(0..=u64::MAX, |mut locked| {
            let now = locked.shard.latest(now);
            locked.rebuild(how, now);
        });
    }

    /// Drops what is fresh in the next shard, if there may be something.
    pub(crate) fn sweep_one(&self, now: Timestamp) {
        let (mut locked, now) = self.lock_next(&self.sweep, now);
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
        let (mut locked, now) = self.lock_next(&self.evict, now);
        locked.free_some(now)
    }

    /// Makes the longest log of the next shard coarser; whether there is memory for one more then.
    pub(crate) fn coarsen_some(&self, now: Timestamp) -> bool {
        self.lock_next(&self.evict, now).0.shard.coarsen_longest();
        self.has_log_room()
    }

    fn lock_next(&self, next: &AtomicUsize, now: Timestamp) -> (Locked<'_>, Timestamp) {
        let shards = self.stages.current();
        let next = next.fetch_add(1, Ordering::Relaxed) % shards.len();
        self.lock_at(shards.first(next), now)
    }
}

/// The places of a table that is gone are free.
impl Drop for Table {
    fn drop(&mut self) {
        self.places.give_all_back(&self.parts);
        if self.places.overrides() > 0 {
            let Self { places, .. } = &*self;
            self.visit(0..=u64::MAX, |locked| {
                locked.shard.all_kept().for_each(|_| places.drop_override());
            });
        }
    }
}
