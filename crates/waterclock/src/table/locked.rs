//! A shard under its lock.

use waterclock_core::store::{Decide as _, Logs, Reserve as _, ReservedUnits, State, Verdict};
use waterclock_core::{Cost, Outcome, Policy, Timestamp};

use super::family::MOST_WORDS;
use super::rebuild::Rebuild;
use super::shards::Shards;
use super::{Key, Shard, ShardRange, Table};
use crate::sync::{Arc, MutexGuard};

/// A shard under its lock, with what it needs to grow.
pub(crate) struct Locked<'a> {
    pub(crate) shard: MutexGuard<'a, Shard>,
    pub(super) number: usize,
    pub(super) shards: &'a Shards,
    pub(super) table: &'a Table,
}

impl Locked<'_> {
    /// Which fingerprints it is for.
    pub(crate) fn range(&self) -> ShardRange {
        ShardRange::of(self.number, self.shards.bits())
    }

    pub(super) fn contains(&self, fingerprint: u64) -> bool {
        self.shards.of(fingerprint) == self.number
    }

    /// Records a verdict: for the key, or for the shard's overflow entry if there is no place for it.
    pub(crate) fn record(&mut self, key: Key, now: Timestamp, cost: &Cost, verdict: Verdict) {
        if !verdict.writes(&self.shard.policy_for(key, now), cost) {
            return;
        }
        if self.shard.stays_with_another(key, now, cost, verdict) {
            return;
        }
        self.find_place(key, now);
        self.shard.record(key, now, cost, verdict);
        if self.shard.is_special(key) {
            // It may have left its slot.
            self.publish_extent();
        }
    }

    /// Charges what was used already: to the key, or to the shard's overflow entry.
    pub(crate) fn debit(&mut self, key: Key, now: Timestamp, cost: &Cost) {
        if cost.is_zero() || self.shard.policy_for(key, now).words() == 0 {
            return;
        }
        self.find_place(key, now);
        self.shard.debit(key, now, cost);
    }

    /// Counts the outcome of admitted requests.
    pub(crate) fn report(&mut self, key: Key, now: Timestamp, outcome: Outcome, times: &Cost) {
        if !times.is_zero() && self.shard.policy_for(key, now).takes_reports() {
            self.find_place(key, now);
            self.shard.report(key, now, outcome, times);
        }
    }

    /// Records a verdict that can be settled.
    pub(crate) fn hold(
        &mut self,
        key: Key,
        now: Timestamp,
        cost: &Cost,
        verdict: Verdict,
        until: Timestamp,
    ) -> ReservedUnits {
        let policy = self.shard.policy_for(key, now);
        if !verdict.writes(&policy, cost) {
            let (mut words, mut logs) = ([0; MOST_WORDS], Logs::new());
            let mut nothing = State::new(&mut words[..policy.words()], &mut logs);
            return policy.hold(&mut nothing, now, cost, verdict, until);
        }
        self.find_place(key, now);
        self.shard.hold(key, now, cost, verdict, until)
    }

    /// Settles what was held under a policy, which may have been replaced since.
    pub(crate) fn settle(
        &mut self,
        key: Key,
        now: Timestamp,
        then: &Arc<Policy>,
        held: &ReservedUnits,
        used: &Cost,
    ) {
        if held.is_exactly(then, used) {
            return;
        }
        if held.is_less_than(then, used) {
            self.find_place(key, now);
        }
        self.shard.settle(key, now, then, held, used);
    }

    /// Gives a key a place, if there is one left.
    fn find_place(&mut self, key: Key, now: Timestamp) {
        if self.shard.knows(key.fingerprint) {
            return;
        }
        let Table { places, parts, .. } = self.table;
        // What was free before the shard was locked may be gone, above all to other keys of the same check.
        let take = || self.table.has_log_room() && places.take(parts);
        let is_kept = self.shard.is_special(key) && self.shard.kept(key.fingerprint, now).is_some();
        if is_kept {
            // As many as there are overrides, which are bounded.
            places.take_anyway(parts);
        }
        if is_kept || take() || self.free_some(now) > 0 && take() {
            if self.shard.is_special(key) {
                self.shard.insert_special(key.fingerprint, now);
            } else {
                self.make_place(key.fingerprint, now);
            }
        } else {
            places.count_overflow();
        }
    }

    /// Returns how many keys were dropped.
    pub(super) fn rebuild(&mut self, how: Rebuild<'_>, now: Timestamp) -> usize {
        let dropped = self.shard.rebuild(how, now);
        self.table.places.give_back(&self.table.parts, dropped);
        self.publish_extent();
        dropped
    }

    /// Drops the keys that are fresh or, if none is, forgets some of which at most half is used, unless the table
    /// keeps them all. Returns how many.
    pub(super) fn free_some(&mut self, now: Timestamp) -> usize {
        let may_free = self.shard.may_free(now);
        let fresh = if may_free { self.rebuild(Rebuild::Tidy, now) } else { 0 };
        if fresh > 0 || !self.table.gives_way() || !self.shard.may_give_way(now) {
            return fresh;
        }
        let Table { places, parts, .. } = self.table;
        let evicted = self.shard.evict(now);
        places.give_back(parts, evicted);
        places.count_evicted(evicted);
        self.publish_extent();
        evicted
    }

    /// Publishes where the shard's memory is now, for prefetching.
    pub(super) fn publish_extent(&self) {
        self.shards.publish(self.number, &self.shard);
    }
}
