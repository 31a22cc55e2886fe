//! Shards on their way out into a snapshot, and back.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use waterclock_core::store::{Decide as _, Logs, Migrate as _, Persist as _, State, View};
use waterclock_core::{Policy, Timestamp};

use super::family::{Family, Key, Variant};
use super::shard::{Rest, Shard, slots};
use super::{Locked, MAX_SHARD_BITS, Rebuild, Table};
use crate::memory::{push_bytes, push_text};
use crate::store::Override;
use crate::sync::Arc;

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

    /// What was used by a clock that is only at `now` by now is used now.
    pub(crate) fn rewind(&mut self, by: &Policy, written: Timestamp, now: Timestamp) {
        by.rewind(&mut State::new(&mut self.words, &mut self.logs), written, now);
    }
}

/// The policy by which a saved state was written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WrittenBy<'a> {
    /// One with the same definition as the present one.
    TheSame,
    /// One that this one replaces.
    Another(&'a Policy),
    /// One that shared its keys with this one.
    Sibling(&'a Policy),
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

    pub(super) fn of(shard: usize, bits: u32) -> Self {
        Self { number: shard as u64, bits }
    }

    fn shards(self) -> u64 {
        1 << self.bits
    }

    fn fingerprints(self) -> RangeInclusive<u64> {
        let first = self.number << (64 - self.bits);
        first..=first | (u64::MAX >> self.bits)
    }

    /// The first fingerprint after these.
    pub(crate) fn next(self) -> Option<u64> {
        self.fingerprints().end().checked_add(1)
    }
}

impl Shard {
    /// Adds a shard's words to a snapshot; how many keys that were. `variants` are those that states may
    /// be of, with their numbers.
    pub(crate) fn save(
        &self,
        now: Timestamp,
        range: ShardRange,
        variants: &HashMap<Variant, u64>,
        to: &mut Vec<u64>,
    ) -> usize {
        let now = now.max(self.latest);
        let overflow = (!self.rest.overflow.is_empty()).then_some(&*self.rest.overflow);
        let has_overflow = u64::from(overflow.is_some());
        to.extend([now.as_nanos(), range.number, range.shards(), has_overflow]);
        let count_at = to.len();
        to.push(0);
        if let Some(words) = overflow {
            self.save_state(words, variants, to);
        }
        let words = self.buckets.words();
        let mut keys = 0;
        for slot in slots(self.layout, self.buckets.count()) {
            let fingerprint = words[slot.fingerprint];
            let state = &words[self.layout.key(slot.state)];
            if fingerprint == 0 {
                continue;
            }
            let (_, policy, written) = self.rest.family.written(state);
            if !policy.fresh_in(View::new(written, &self.rest.logs), now).is_zero() {
                to.push(fingerprint);
                self.save_state(state, variants, to);
                keys += 1;
            }
        }
        to[count_at] = keys;
        usize::try_from(keys).unwrap_or(usize::MAX)
    }

    fn save_state(&self, words: &[u64], variants: &HashMap<Variant, u64>, to: &mut Vec<u64>) {
        let (variant, policy, words) = self.rest.family.written(words);
        if !variants.is_empty() {
            to.push(variants.get(&variant).copied().unwrap_or(0));
        }
        self.save_words(policy, words, to);
    }

    fn save_words(&self, policy: &Policy, words: &[u64], to: &mut Vec<u64>) {
        let start = to.len();
        to.extend_from_slice(words);
        for at in policy.log_words() {
            // A handle means nothing elsewhere.
            to[start + at] = 0;
            let log = self.rest.logs.entries(words[at]);
            to.push(log.len() as u64);
            log.for_each(|(stamp, size)| to.extend([stamp, size]));
        }
    }

    pub(crate) fn has_specials(&self) -> bool {
        !self.rest.specials.0.is_empty()
    }

    /// Adds keys with limits of their own to a snapshot; how many that were.
    pub(crate) fn save_specials(&self, now: Timestamp, to: &mut Vec<u64>) -> usize {
        let Rest { family, logs, specials, .. } = &*self.rest;
        let count_at = to.len();
        to.push(0);
        for (fingerprint, special) in &specials.0 {
            let by = family.by(&special.by);
            let kept = special.kept.as_ref().filter(|kept| now < kept.expires_at);
            let view = View::new(&special.words, logs);
            let is_saved = special.is_placed && !by.fresh_in(view, now).is_zero();
            if kept.is_none() && !is_saved {
                continue;
            }
            to[count_at] += 1;
            to.extend([*fingerprint, u64::from(kept.is_some())]);
            if let Some(kept) = kept {
                push_bytes(&kept.key, to);
                push_text(&kept.rule.to_string(), to);
                to.push(kept.expires_at.as_nanos());
            }
            let limits = Override::Limits(by.limits().into()).to_string();
            push_text(if is_saved { &limits } else { "" }, to);
            if is_saved {
                self.save_words(&by, &special.words, to);
            }
        }
        usize::try_from(to[count_at]).unwrap_or(usize::MAX)
    }

    /// Fills the words of the key that start there.
    fn put_back(
        &mut self,
        at: usize,
        under: Variant,
        by: WrittenBy<'_>,
        saved: &Saved,
        now: Timestamp,
    ) {
        let words = &mut self.buckets.words_mut()[self.layout.key(at)];
        let Rest { family, logs, .. } = &mut *self.rest;
        let (policy, old) = family.writing(words);
        policy.clear(&mut State::new(old, logs));
        fill(family, under, by, saved, words, logs, now);
        let (_, policy, words) = family.written(words);
        let fresh_at = now.after(policy.fresh_in(View::new(words, logs), now));
        (self.rest.frees_at, self.rest.gives_way_at) = (self.rest.frees_at.min(fresh_at), now);
        self.count_logs_of(Some(at));
    }

    /// Puts what keys without a place had spent in the place of what they have spent here, if that is
    /// less: less is what is sooner forgotten.
    fn put_back_overflow(
        &mut self,
        under: Variant,
        by: WrittenBy<'_>,
        saved: &Saved,
        now: Timestamp,
    ) {
        let Rest { family, logs, overflow, .. } = &mut *self.rest;
        let mut other = vec![0; self.layout.state()].into_boxed_slice();
        fill(family, under, by, saved, &mut other, logs, now);
        let fresh_in = |words: &[u64], logs: &Logs| {
            let (_, policy, words) = family.written(words);
            policy.fresh_in(View::new(words, logs), now)
        };
        if overflow.is_empty() || fresh_in(&other, logs) > fresh_in(overflow, logs) {
            std::mem::swap(overflow, &mut other);
        }
        // One of the two is given up, with its logs.
        if !other.is_empty() {
            let (policy, words) = family.writing(&mut other);
            policy.clear(&mut State::new(words, logs));
        }
        self.count_logs_of(None);
    }
}

/// Fills fresh words of a member with a state that was saved.
fn fill(
    family: &Family,
    under: Variant,
    by: WrittenBy<'_>,
    saved: &Saved,
    words: &mut [u64],
    logs: &mut Logs,
    now: Timestamp,
) {
    let (variant, policy) = family.find(under);
    if family.is_tagged() {
        words[0] = variant.0;
    }
    let (_, words) = family.writing(words);
    let mut state = State::new(words, logs);
    match by {
        WrittenBy::TheSame => policy.adopt(saved.view(), &mut state),
        WrittenBy::Another(old) => policy.migrate(old, saved.view(), &mut state, now),
        WrittenBy::Sibling(old) => {
            policy.migrate_variant(family.migration(), old, saved.view(), &mut state, now);
        }
    }
}

impl Table {
    /// Makes room for so many keys of a range at once, instead of bit by bit.
    pub(crate) fn expect(&self, range: ShardRange, keys: u64) {
        let keys = usize::try_from(keys).unwrap_or(0);
        self.grow_for(self.len() + keys);
        let mut shards = 0;
        self.visit(range.fingerprints(), |_| shards += 1);
        let each = keys.div_ceil(shards.max(1));
        self.visit(range.fingerprints(), |mut locked| {
            locked.shard.expect(each);
            locked.publish_extent();
        });
    }

    /// Puts a key back that a snapshot remembers; whether there was something to remember. It gets a place
    /// even if there is none: it has spent what it has.
    pub(crate) fn put_back(
        &self,
        key: Key,
        by: WrittenBy<'_>,
        saved: &Saved,
        now: Timestamp,
    ) -> bool {
        let Key { fingerprint, under, .. } = key;
        self.grow_for(self.len());
        let (mut locked, now) = self.lock_at(fingerprint, now);
        let policy = match by {
            WrittenBy::TheSame => locked.shard.policy(under),
            WrittenBy::Another(policy) | WrittenBy::Sibling(policy) => policy,
        };
        if policy.fresh_in(saved.view(), now).is_zero() {
            return false;
        }
        if locked.shard.is_special(key) {
            return false;
        }
        if locked.shard.find(fingerprint).is_none() {
            self.places.take_anyway(&self.parts);
            locked.make_place(fingerprint, now);
        }
        if let Some(at) = locked.shard.find(fingerprint) {
            locked.shard.put_back(at, under, by, saved, now);
        }
        true
    }

    /// Puts a key back that has limits of its own; whether there was something to remember.
    pub(crate) fn put_back_special(
        &self,
        fingerprint: u64,
        by: Arc<Policy>,
        saved: &Saved,
        now: Timestamp,
    ) -> bool {
        self.grow_for(self.len());
        let (mut locked, now) = self.lock_at(fingerprint, now);
        if by.fresh_in(saved.view(), now).is_zero() {
            return false;
        }
        if !locked.shard.knows(fingerprint) {
            self.places.take_anyway(&self.parts);
        }
        locked.shard.put_back_special(fingerprint, by, saved, now);
        true
    }

    /// Puts back what keys without a place share, wherever those keys belong now.
    pub(crate) fn put_back_overflow(
        &self,
        range: ShardRange,
        under: Variant,
        by: WrittenBy<'_>,
        saved: &Saved,
        now: Timestamp,
    ) {
        self.visit(range.fingerprints(), |mut locked| {
            let now = locked.shard.latest(now);
            locked.shard.put_back_overflow(under, by, saved, now);
        });
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
