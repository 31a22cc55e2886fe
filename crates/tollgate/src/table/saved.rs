//! Shards on their way out into a snapshot, and back.

use std::ops::RangeInclusive;
use std::time::Duration;

use tollgate_core::{Logs, Policy, State, Timestamp, View};

use super::shard::{Shard, slots};
use super::{Locked, MAX_SHARD_BITS, Rebuild, Table};

/// What one key remembered.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    pub(crate) words: Vec<u64>,
    pub(crate) logs: Logs,
}

impl Saved {
    fn view(&self) -> View<'_> {
        View::new(&self.words, &self.logs)
    }
}

/// The policy by which a saved state was written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WrittenBy<'a> {
    /// One with the same definition as the present one.
    TheSame,
    Another(&'a Policy),
}

/// Which fingerprints a shard is for: its number among so many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardRange {
    number: u64,
    bits: u32,
}

impl ShardRange {
    pub(crate) fn new(number: u64, shards: u64) -> Option<Self> {
        let bits = shards.checked_ilog2().filter(|bits| (1..=MAX_SHARD_BITS).contains(bits))?;
        (shards.is_power_of_two() && number < shards).then_some(Self { number, bits })
    }

    fn shards(self) -> u64 {
        1 << self.bits
    }
}

impl Shard {
    /// Adds a shard's words to a snapshot; how many keys that were.
    pub(crate) fn save(&self, now: Timestamp, range: ShardRange, to: &mut Vec<u64>) -> usize {
        let now = now.max(self.latest);
        let overflow = (!self.rest.overflow.is_empty()).then_some(&*self.rest.overflow);
        let has_overflow = u64::from(overflow.is_some());
        to.extend([now.as_nanos(), range.number, range.shards(), has_overflow]);
        let count_at = to.len();
        to.push(0);
        if let Some(words) = overflow {
            self.save_words(words, to);
        }
        let words = self.buckets.words();
        let mut keys = 0;
        for slot in slots(self.layout, self.buckets.count()) {
            let fingerprint = words[slot.fingerprint];
            let state = &words[self.layout.key(slot.state)];
            let view = View::new(state, &self.rest.logs);
            if fingerprint != 0 && !self.policy.fresh_in(view, now).is_zero() {
                to.push(fingerprint);
                self.save_words(state, to);
                keys += 1;
            }
        }
        to[count_at] = keys;
        usize::try_from(keys).unwrap_or(usize::MAX)
    }

    fn save_words(&self, words: &[u64], to: &mut Vec<u64>) {
        let start = to.len();
        to.extend_from_slice(words);
        for at in self.policy.log_words() {
            // A handle means nothing elsewhere.
            to[start + at] = 0;
            let log = self.rest.logs.entries(words[at]);
            to.push(log.len() as u64);
            log.for_each(|(stamp, size)| to.extend([stamp, size]));
        }
    }

    /// Fills the fresh words of the key that start there.
    fn put_back(&mut self, at: usize, by: WrittenBy<'_>, saved: &Saved, now: Timestamp) {
        let words = &mut self.buckets.words_mut()[self.layout.key(at)];
        let mut state = State::new(words, &mut self.rest.logs);
        self.policy.clear(&mut state);
        fill(&self.policy, by, saved, &mut state, now);
        let fresh_at = now.after(self.policy.fresh_in(state.view(), now));
        self.rest.frees_at = self.rest.frees_at.min(fresh_at);
    }

    /// Puts what keys without a place had spent in the place of what they have spent here, if that is
    /// less: less is what is sooner forgotten.
    fn put_back_overflow(&mut self, by: WrittenBy<'_>, saved: &Saved, now: Timestamp) {
        let mut words = vec![0; self.layout.state()];
        let mut state = State::new(&mut words, &mut self.rest.logs);
        fill(&self.policy, by, saved, &mut state, now);
        let fresh_in = self.policy.fresh_in(state.view(), now);
        let here = if self.rest.overflow.is_empty() {
            Duration::ZERO
        } else {
            let overflow = View::new(&self.rest.overflow, &self.rest.logs);
            self.policy.fresh_in(overflow, now)
        };
        // One of the two is given up, with its logs.
        let mut other = words;
        if fresh_in > here {
            std::mem::swap(&mut self.rest.overflow, &mut other);
        }
        if !other.is_empty() {
            self.policy.clear(&mut State::new(&mut other, &mut self.rest.logs));
        }
    }
}

fn fill(policy: &Policy, by: WrittenBy<'_>, saved: &Saved, state: &mut State<'_>, now: Timestamp) {
    match by {
        WrittenBy::TheSame => policy.adopt(saved.view(), state),
        WrittenBy::Another(old) => policy.carry(old, saved.view(), state, now),
    }
}

impl Table {
    pub(crate) fn shards(&self) -> usize {
        self.cells.len()
    }

    pub(crate) fn range(&self, shard: usize) -> ShardRange {
        ShardRange { number: shard as u64, bits: 64 - self.shift }
    }

    /// Makes room for so many keys of a range at once, instead of bit by bit.
    pub(crate) fn expect(&self, range: ShardRange, keys: u64) {
        let shards = self.shards_of(range);
        let each = keys.div_ceil(shards.clone().count().max(1) as u64);
        for shard in shards {
            let mut locked = self.lock(shard);
            locked.shard.expect(usize::try_from(each).unwrap_or(0));
            locked.tell_extent();
        }
    }

    fn shards_of(&self, range: ShardRange) -> RangeInclusive<usize> {
        let first = range.number << (64 - range.bits);
        let last = first | (u64::MAX >> range.bits);
        self.shard_of(first)..=self.shard_of(last)
    }

    /// Puts a key back that a snapshot remembers; whether there was something to remember. It gets a place
    /// even if there is none: it has spent what it has.
    pub(crate) fn put_back(
        &self,
        fingerprint: u64,
        by: WrittenBy<'_>,
        saved: &Saved,
        now: Timestamp,
    ) -> bool {
        let (mut locked, now) = self.lock_at(self.shard_of(fingerprint), now);
        let policy = match by {
            WrittenBy::TheSame => locked.shard.policy(),
            WrittenBy::Another(policy) => policy,
        };
        if policy.fresh_in(saved.view(), now).is_zero() {
            return false;
        }
        if locked.shard.find(fingerprint).is_none() {
            self.budget.take_anyway();
            locked.make_place(fingerprint, now);
        }
        if let Some(at) = locked.shard.find(fingerprint) {
            locked.shard.put_back(at, by, saved, now);
        }
        true
    }

    /// Puts back what keys without a place share, wherever those keys belong now.
    pub(crate) fn put_back_overflow(
        &self,
        range: ShardRange,
        by: WrittenBy<'_>,
        saved: &Saved,
        now: Timestamp,
    ) {
        for shard in self.shards_of(range) {
            let (mut locked, now) = self.lock_at(shard, now);
            locked.shard.put_back_overflow(by, saved, now);
        }
    }
}

impl Locked<'_> {
    /// Adds a new key for which a place was taken.
    pub(super) fn make_place(&mut self, fingerprint: u64, now: Timestamp) {
        if self.shard.is_crowded() {
            self.rebuild(Rebuild::Tidy, now);
        }
        self.shard.insert(fingerprint, now);
    }
}
