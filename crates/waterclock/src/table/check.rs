//! A check of one key: a short way that is inlined, and the rest out of line.

use waterclock_core::{Cost, Decision, Timestamp};

use super::shards::Found;
use super::special::Standing;
use super::{Key, Locked, Table};

/// How many keys of a batch are fetched from memory at once.
const BATCH: usize = 16;

impl Table {
    #[inline]
    pub(crate) fn check(&self, key: impl Into<Key>, now: Timestamp, cost: u64) -> Decision {
        let key = key.into();
        self.check_in(self.stages.current().find(key.fingerprint), key.fingerprint, key, now, cost)
    }

    /// A check in the shard where its memory was [fetched](Self::prefetch): one that has moved since says so.
    ///
    /// Here is only what most checks need, and inlined whatever the compiler thinks: a caller that asks for little of the
    /// decision then pays for little.
    #[inline(always)]
    pub(crate) fn check_in<'a>(
        &'a self,
        found: Found<'a>,
        fingerprint: u64,
        key: impl Into<Key>,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        let mut guard = found.lock();
        let shard = &mut *guard;
        let now = shard.latest(now);
        if let Some((policy, word)) = shard.one_word(fingerprint) {
            return policy.check(word, now, cost);
        }
        let Found { shards, number, .. } = found;
        let locked = Locked { shard: guard, number, shards, table: self };
        copied(&self.check_any(locked, key.into(), now, cost))
    }

    #[inline(never)]
    fn check_any<'a>(
        &'a self,
        mut locked: Locked<'a>,
        key: Key,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        let shard = &mut *locked.shard;
        if !shard.is_tagged()
            && let Some(at) = shard.find(key.fingerprint)
        {
            return shard.check_at(at, now, cost);
        }
        self.check_at_length(locked, key, now, cost)
    }

    /// A check under a member that may have been removed; `None` if it was.
    pub(crate) fn check_current(&self, key: Key, now: Timestamp, cost: u64) -> Option<Decision> {
        let (mut locked, mut now) = self.lock_at(key.fingerprint, now);
        if locked.shard.is_tagged()
            && let Some(decision) = locked.shard.check_again(key, now, cost)
        {
            return Some(decision);
        }
        if !self.has_room() && !locked.shard.knows(key.fingerprint) {
            drop(locked);
            self.make_room(now);
            (locked, now) = self.lock_at(key.fingerprint, now);
        }
        // Not before: while the shard was not locked, the member may have been removed.
        locked.shard.has(key.under).then(|| decide(locked, key, now, cost))
    }

    /// The same for a peek.
    pub(crate) fn peek_current(&self, key: Key, now: Timestamp, cost: u64) -> Option<Decision> {
        let (locked, now) = self.lock_at(key.fingerprint, now);
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
        // It has no keys, so none was found in it.
        if locked.shard.has_moved() {
            drop(locked);
            return self.check(key, now, cost);
        }
        if locked.shard.is_tagged()
            && let Some(decision) = locked.shard.check_again(key, now, cost)
        {
            return decision;
        }
        if !self.has_room() && !locked.shard.knows(key.fingerprint) {
            drop(locked);
            self.make_room(now);
            locked = self.lock(key.fingerprint);
        }
        let now = locked.shard.latest(now);
        decide(locked, key, now, cost)
    }

    /// Starts to fetch what a check of this fingerprint will need, and returns where to check it.
    #[inline(always)]
    pub(crate) fn prefetch(&self, fingerprint: u64) -> Found<'_> {
        self.stages.current().prefetch(fingerprint)
    }

    /// Calls `decide` for each fingerprint in turn, with where it is, and with the memory of several fetched at once.
    /// Whatever comes with a fingerprint is passed on.
    #[inline]
    pub(crate) fn in_batches<'a, T: Copy>(
        &'a self,
        fingerprints: impl Iterator<Item = (u64, T)>,
        mut decide: impl FnMut(Found<'a>, u64, T),
    ) {
        let mut fingerprints = fingerprints.fuse();
        loop {
            let shards = self.stages.current();
            let mut batch = [None; BATCH];
            for (slot, (fingerprint, with)) in batch.iter_mut().zip(&mut fingerprints) {
                *slot = Some((shards.prefetch(fingerprint), fingerprint, with));
            }
            for slot in &batch {
                let &Some((found, fingerprint, with)) = slot else { return };
                decide(found, fingerprint, with);
            }
        }
    }
}

/// A decision that was made out of line. A function writes its answer to memory; if another branch did so to the same
/// memory, it would write all of it, and could not leave out what its caller does not read.
#[inline(always)]
pub(crate) fn copied(decision: &Decision) -> Decision {
    *decision
}

/// Decides about a key and charges it, in a place of its own if there is one.
fn decide(mut locked: Locked<'_>, key: Key, now: Timestamp, cost: u64) -> Decision {
    let cost = Cost::from(cost);
    let standing = locked.shard.standing(key, now);
    if standing != Standing::Limited {
        return locked.shard.answer_standing(standing, key, now, &cost).decision;
    }
    if locked.shard.policy_for(key, now).reserves_only() {
        return locked.shard.refuse_check(key, now, &cost);
    }
    let verdict = locked.shard.judge(key, now, &cost);
    locked.record(key, now, &cost, verdict);
    locked.shard.answer(key, now, &cost, verdict)
}
