//! The shards of a table, and how they become more with its keys.
//!
//! A store may have policies by the thousand, most of them with few keys or none. So a table that shares its places
//! starts with two shards, and its keys move to more as they come, twice at most: memory follows the keys.
//!
//! A table grows with all of its shards locked, and those that it had are marked as moved. A thread that was about to lock
//! one of them finds the mark, and looks for the new shard. While any shard is locked, the table does not grow.

use std::sync::OnceLock;

use waterclock_core::store::{Logs, Persist as _, State, View};

use super::family::Family;
use super::prefetch::{Hint, fetch};
use super::shard::{Shard, probe, slots};
use super::{KEYS_PER_SHARD, MAX_SHARD_BITS};
use crate::places::{Parts, Places};
use crate::sync::{Arc, AtomicUsize, Mutex, MutexGuard, Ordering, lock};

/// Two shards never share a cache line.
#[repr(align(64))]
#[derive(Debug)]
struct Cell(Mutex<Shard>);

/// Where a shard is, for as long as it has not moved.
#[derive(Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(super) shards: &'a Shards,
    pub(super) number: usize,
    cell: &'a Cell,
}

impl<'a> Found<'a> {
    #[inline(always)]
    pub(super) fn lock(self) -> MutexGuard<'a, Shard> {
        lock(&self.cell.0)
    }
}

/// Shards for all fingerprints, each for a range of them.
#[derive(Debug)]
pub(crate) struct Shards {
    cells: Box<[Cell]>,
    /// Where the shards keep their buckets.
    hints: Box<[Hint]>,
    /// 64 − log2(shards): how far to shift a fingerprint to get its shard.
    shift: u32,
}

impl Shards {
    fn new(bits: u32, family: &Arc<Family>, places: &Arc<Places>, parts: &Arc<Parts>) -> Self {
        let shards = 0..1_usize << bits;
        let shard = |_| Cell(Mutex::new(Shard::new(family, places, parts)));
        Self {
            cells: shards.clone().map(shard).collect(),
            hints: shards.map(|_| Hint::default()).collect(),
            shift: 64 - bits,
        }
    }

    fn none() -> Self {
        Self { cells: Box::default(), hints: Box::default(), shift: 63 }
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    pub(super) fn bits(&self) -> u32 {
        64 - self.shift
    }

    /// The shard of a fingerprint.
    #[inline]
    pub(super) fn of(&self, fingerprint: u64) -> usize {
        usize::try_from(fingerprint >> self.shift).unwrap_or(0)
    }

    /// The first fingerprint of a shard.
    pub(super) fn first(&self, shard: usize) -> u64 {
        (shard as u64) << self.shift
    }

    /// A shard, which may have moved.
    #[inline]
    pub(super) fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        lock(&self.cells[shard].0)
    }

    /// Where the shard of a fingerprint is.
    #[inline(always)]
    pub(super) fn find(&self, fingerprint: u64) -> Found<'_> {
        let number = self.of(fingerprint);
        Found { shards: self, number, cell: &self.cells[number] }
    }

    /// The same, and starts to fetch what a check of this fingerprint will need.
    #[inline(always)]
    pub(super) fn prefetch(&self, fingerprint: u64) -> Found<'_> {
        let found = self.find(fingerprint);
        fetch(found.cell);
        if let Some(hint) = self.hints.get(found.number) {
            hint.fetch(fingerprint);
        }
        found
    }

    /// Publishes where a shard's memory is now, for prefetching.
    pub(super) fn publish(&self, number: usize, shard: &Shard) {
        self.hints[number].set(shard.extent());
    }

    /// Fills these shards, which are fresh, with the keys of one that they divide among them.
    fn split(&self, first: u64, last: u64, old: &mut Shard) {
        let (layout, words) = (old.layout, old.buckets.words());
        let known =
            || slots(layout, old.buckets.count()).filter(|slot| words[slot.fingerprint] != 0);
        let mut keys = vec![0; self.of(last) - self.of(first) + 1];
        known().for_each(|slot| keys[self.of(words[slot.fingerprint]) - self.of(first)] += 1);
        for (number, keys) in (self.of(first)..).zip(keys) {
            let mut shard = self.lock(number);
            shard.expect(keys);
            shard.latest = old.latest;
            shard.rest.frees_at = old.rest.frees_at;
            shard.rest.gives_way_at = old.rest.gives_way_at;
            if !old.rest.overflow.is_empty() {
                let mut overflow = vec![0; layout.state()].into_boxed_slice();
                let Shard { rest, .. } = &mut *shard;
                copy(
                    &rest.family,
                    (&old.rest.overflow, &old.rest.logs),
                    (&mut overflow, &mut rest.logs),
                );
                rest.overflow = overflow;
                // The copies together may be more than there is memory for.
                shard.count_logs_of(None);
            }
        }
        for slot in known() {
            let fingerprint = words[slot.fingerprint];
            let from = &words[layout.key(slot.state)];
            let mut shard = self.lock(self.of(fingerprint));
            let Shard { buckets, rest, .. } = &mut *shard;
            // There is room: it was made above.
            let Some(slot) = probe(layout, buckets, fingerprint) else { continue };
            let words = buckets.words_mut();
            words[slot.fingerprint] = fingerprint;
            rest.used += 1;
            let to = &mut words[layout.key(slot.state)];
            copy(&rest.family, (from, &old.rest.logs), (to, &mut rest.logs));
        }
        for (fingerprint, special) in std::mem::take(&mut old.rest.specials.0) {
            self.lock(self.of(fingerprint)).take_special(fingerprint, special, &old.rest.logs);
        }
        (self.of(first)..=self.of(last)).for_each(|number| {
            let mut shard = self.lock(number);
            shard.rest.count_logs(true);
            self.publish(number, &shard);
        });
        old.move_away();
    }
}

/// Copies a state to a shard of the same family.
fn copy(family: &Family, (from, from_logs): (&[u64], &Logs), (to, logs): (&mut [u64], &mut Logs)) {
    if family.is_tagged() {
        to[0] = from[0];
    }
    let (_, policy, from) = family.written(from);
    let (_, to) = family.writing(to);
    policy.adopt(View::new(from, from_logs), &mut State::new(to, logs));
}

/// Two shards, and for how many keys. Few enough under shuttle that every schedule grows twice.
const FIRST: Stage = Stage { bits: 1, keys: if cfg!(shuttle) { 2 } else { 32 } };
const SECOND: Stage = if cfg!(shuttle) {
    Stage { bits: 2, keys: 4 }
} else {
    Stage { bits: 5, keys: KEYS_PER_SHARD }
};

struct Stage {
    bits: u32,
    /// More keys than this go to the next stage. They all move under one lock, like those of a shard that is rebuilt.
    keys: usize,
}

/// The shards that a table has, and those that it had with fewer keys.
#[derive(Debug)]
pub(super) struct Stages {
    first: Shards,
    second: OnceLock<Shards>,
    last: OnceLock<Shards>,
    /// How many shards there are in the last stage, as a power of two.
    bits: u32,
    /// How many keys are too many for the shards in use.
    grows_at: AtomicUsize,
}

impl Stages {
    /// In the last stage from the start: for a table that has all the places.
    pub(super) fn all(family: &Arc<Family>, places: &Arc<Places>, parts: &Arc<Parts>) -> Self {
        let bits = bits_for(places.max());
        let last = OnceLock::from(Shards::new(bits, family, places, parts));
        let grows_at = AtomicUsize::new(usize::MAX);
        Self { first: Shards::none(), second: OnceLock::new(), last, bits, grows_at }
    }

    /// In the first stage: for a table that shares the places with others.
    pub(super) fn few(family: &Arc<Family>, places: &Arc<Places>, parts: &Arc<Parts>) -> Self {
        let bits = bits_for(places.max());
        if bits <= FIRST.bits {
            return Self::all(family, places, parts);
        }
        Self {
            first: Shards::new(FIRST.bits, family, places, parts),
            second: OnceLock::new(),
            last: OnceLock::new(),
            bits,
            grows_at: AtomicUsize::new(FIRST.keys),
        }
    }

    /// The shards in use. They may have moved when one of them is locked.
    #[inline]
    pub(super) fn current(&self) -> &Shards {
        match self.last.get() {
            Some(last) => last,
            None => self.second.get().unwrap_or(&self.first),
        }
    }

    /// Whether so many keys are too many for the shards in use.
    #[inline]
    pub(super) fn is_crowded(&self, keys: usize) -> bool {
        keys >= self.grows_at.load(Ordering::Relaxed)
    }

    /// Moves all keys to more shards. Nothing else may do so at the same time, or change the family.
    #[cold]
    pub(super) fn grow(&self, family: &Arc<Family>, places: &Arc<Places>, parts: &Arc<Parts>) {
        if self.last.get().is_some() {
            return;
        }
        let is_last = self.second.get().is_some() || self.bits <= SECOND.bits;
        let (stage, bits, keys) = if is_last {
            (&self.last, self.bits, usize::MAX)
        } else {
            (&self.second, SECOND.bits, SECOND.keys)
        };
        let old = self.current();
        // Before anything is locked: this is what takes longest.
        let new = Shards::new(bits, family, places, parts);
        let mut locked: Vec<_> = (0..old.len()).map(|number| old.lock(number)).collect();
        for (number, shard) in locked.iter_mut().enumerate() {
            let first = old.first(number);
            new.split(first, first | (u64::MAX >> old.bits()), shard);
        }
        self.grows_at.store(keys, Ordering::Relaxed);
        // Nothing else sets it.
        _ = stage.set(new);
    }
}

fn bits_for(places: usize) -> u32 {
    let wanted = (places / KEYS_PER_SHARD).max(1);
    wanted.next_power_of_two().ilog2().clamp(1, MAX_SHARD_BITS)
}
