//! The table of keyed state: bounded, growing and sweeping itself in small steps.
//!
//! A key is known by a 64-bit fingerprint. Its top bits choose a shard; a shard is a small open
//! table under a lock of its own (see [`shard`]). No step is larger than rebuilding one shard, and
//! there are enough shards that this stays in the microseconds.

mod layout;
mod prefetch;
mod saved;
mod shard;

use tollgate_core::{Decision, Policy, Timestamp, Verdict};

use crate::budget::Budget;
use crate::sync::{Arc, AtomicUsize, Mutex, MutexGuard, Ordering, lock};
use prefetch::{Hint, fetch};
pub(crate) use saved::{Saved, ShardRange, WrittenBy};
use shard::Rebuild;
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
    budget: Arc<Budget>,
    /// The shard to look through next when a key found no place.
    sweep: AtomicUsize,
    /// Held while the policy changes: two changes at once would leave shards of either.
    change: Mutex<()>,
}

impl Table {
    pub(crate) fn new(policy: &Arc<Policy>, budget: &Arc<Budget>) -> Self {
        let wanted = (budget.max() / KEYS_PER_SHARD).max(1);
        let bits = wanted.next_power_of_two().ilog2().clamp(1, MAX_SHARD_BITS);
        let shards = 0..1_usize << bits;
        Self {
            cells: shards.clone().map(|_| Cell(Mutex::new(Shard::new(policy)))).collect(),
            hints: shards.map(|_| Hint::default()).collect(),
            shift: 64 - bits,
            budget: Arc::clone(budget),
            sweep: AtomicUsize::new(0),
            change: Mutex::new(()),
        }
    }

    #[inline]
    pub(crate) fn shard_of(&self, fingerprint: u64) -> usize {
        usize::try_from(fingerprint >> self.shift).unwrap_or(0)
    }

    /// The shard with this number. Whoever locks several does so in ascending order.
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
    pub(crate) fn check(&self, fingerprint: u64, now: Timestamp, cost: u64) -> Decision {
        let number = self.shard_of(fingerprint);
        let mut shard = lock(&self.cells[number].0);
        let now = shard.latest(now);
        if let Some(at) = shard.find(fingerprint) {
            return shard.check_at(at, now, cost);
        }
        self.check_new(Locked { shard, number, table: self }, fingerprint, now, cost)
    }

    #[inline(never)]
    fn check_new<'a>(
        &'a self,
        mut locked: Locked<'a>,
        fingerprint: u64,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        if self.budget.is_full() {
            let number = locked.number;
            drop(locked);
            self.budget.make_room(|| self.sweep_one(now));
            locked = self.lock(number);
        }
        let now = locked.shard.latest(now);
        let verdict = locked.shard.judge(fingerprint, now, cost);
        locked.record(fingerprint, now, cost, verdict);
        locked.shard.answer(fingerprint, now, cost, verdict)
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

    pub(crate) fn peek(&self, fingerprint: u64, now: Timestamp, cost: u64) -> Decision {
        let (locked, now) = self.lock_at(self.shard_of(fingerprint), now);
        let verdict = locked.shard.judge(fingerprint, now, cost);
        locked.shard.answer(fingerprint, now, cost, verdict)
    }

    pub(crate) fn refund(&self, fingerprint: u64, now: Timestamp, cost: u64) {
        let (mut locked, now) = self.lock_at(self.shard_of(fingerprint), now);
        locked.shard.refund(fingerprint, now, cost);
    }

    pub(crate) fn reset(&self, fingerprint: u64) {
        self.lock(self.shard_of(fingerprint)).shard.reset(fingerprint);
    }

    /// The policy, as the first shard has it.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(self.lock(0).shard.policy())
    }

    /// Applies another policy, shard by shard; what was spent stays spent.
    pub(crate) fn set_policy(&self, policy: &Arc<Policy>, now: Timestamp) {
        let _one_at_a_time = lock(&self.change);
        self.rebuild_all(Rebuild::Under(policy), now);
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
}

/// A shard under its lock, with what it needs to grow.
pub(crate) struct Locked<'a> {
    pub(crate) shard: MutexGuard<'a, Shard>,
    number: usize,
    table: &'a Table,
}

impl Locked<'_> {
    /// Records a verdict: for the key, or for the shard's overflow entry if there is no place for it.
    pub(crate) fn record(&mut self, fingerprint: u64, now: Timestamp, cost: u64, verdict: Verdict) {
        if !verdict.writes(self.shard.policy(), cost) {
            return;
        }
        if !self.shard.knows(fingerprint) && self.table.budget.take() {
            self.make_place(fingerprint, now);
        }
        self.shard.record(fingerprint, now, cost, verdict);
    }

    fn rebuild(&mut self, how: Rebuild<'_>, now: Timestamp) {
        self.table.budget.give_back(self.shard.rebuild(how, now));
        self.tell_extent();
    }

    /// Says where the shard's memory is now.
    fn tell_extent(&self) {
        self.table.hints[self.number].set(self.shard.extent());
    }
}
