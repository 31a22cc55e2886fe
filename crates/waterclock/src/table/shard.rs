//! One shard: a small open-addressing table of fingerprints and states.
//!
//! Slots are only ever added. A key that became fresh again stays where it is until the shard gets crowded;
//! then the shard is rebuilt without the fresh ones (see `rebuild`), and larger only if the others need it.
//! All of that happens under the shard's lock.

use waterclock_core::store::{
    Decide as _, Logs, Migrate as _, OneWord, Persist as _, State, Verdict,
};
use waterclock_core::{Cost, Decision, Policy, Timestamp};

use super::family::{Family, Key, Variant};
use super::layout::{Buckets, Layout, home};
use super::special::Specials;
use crate::places::{Parts, Places};
use crate::sync::Arc;

/// The longest log has one entry left after so many halvings.
const MOST_HALVINGS: usize = 17;

/// What every decision needs; with the lock beside it, it fills one cache line.
#[derive(Debug)]
pub(crate) struct Shard {
    /// The family's base policy; most families have no other member.
    pub(super) policy: Arc<Policy>,
    pub(super) buckets: Buckets,
    pub(super) layout: Layout,
    pub(super) latest: Timestamp,
    pub(super) rest: Box<Rest>,
}

/// What few decisions need.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) family: Arc<Family>,
    /// Slots in use, fresh ones included.
    pub(super) used: usize,
    /// Slots that may be used before the shard is rebuilt.
    pub(super) room: usize,
    /// No slot becomes fresh before this.
    pub(super) frees_at: Timestamp,
    /// Of no slot is at most half used before this.
    pub(super) gives_way_at: Timestamp,
    pub(super) logs: Logs,
    /// The bytes of logs that are counted in the table's part.
    counted: usize,
    pub(super) places: Arc<Places>,
    parts: Arc<Parts>,
    /// The overflow entry, shared by keys without a slot; empty until it is first needed.
    pub(super) overflow: Box<[u64]>,
    pub(super) specials: Specials,
    /// Whether the table has more shards now, which have its keys.
    has_moved: bool,
}

impl Rest {
    /// Some key may be fresh, or half fresh, from then on.
    pub(super) fn frees_soon(&mut self, at: Timestamp) {
        self.frees_at = self.frees_at.min(at);
        self.gives_way_at = self.gives_way_at.min(at);
    }

    /// Counts what the logs take now. `false` if there is no memory for more; `anyway` counts it all the same.
    #[inline]
    pub(super) fn count_logs(&mut self, anyway: bool) -> bool {
        let bytes = self.logs.bytes();
        bytes == self.counted || self.recount_logs(bytes, anyway)
    }

    #[inline(never)]
    fn recount_logs(&mut self, bytes: usize, anyway: bool) -> bool {
        let is_counted = self.places.count_logs(&self.parts, self.counted, bytes, anyway);
        if is_counted {
            self.counted = bytes;
        }
        is_counted
    }
}

impl Shard {
    pub(super) fn new(family: &Arc<Family>, places: &Arc<Places>, parts: &Arc<Parts>) -> Self {
        Self {
            policy: Arc::clone(&family.base),
            buckets: Buckets::default(),
            layout: Layout::new(family),
            latest: Timestamp::ZERO,
            rest: Box::new(Rest {
                family: Arc::clone(family),
                used: 0,
                room: 0,
                frees_at: Timestamp::MAX,
                gives_way_at: Timestamp::MAX,
                logs: Logs::new(),
                counted: 0,
                places: Arc::clone(places),
                parts: Arc::clone(parts),
                overflow: Box::default(),
                specials: Specials::default(),
                has_moved: false,
            }),
        }
    }

    /// Whether its keys are in other shards now: then this one is empty, and stays so.
    #[inline]
    pub(super) fn has_moved(&self) -> bool {
        self.rest.has_moved
    }

    /// Gives up the keys, which other shards have taken over.
    pub(super) fn move_away(&mut self) {
        self.rest.logs = Logs::new();
        self.rest.count_logs(true);
        let Rest { family, places, parts, .. } = &*self.rest;
        *self = Self { latest: self.latest, ..Self::new(family, places, parts) };
        self.rest.has_moved = true;
    }

    /// The policy that a member of the family is.
    pub(crate) fn policy(&self, variant: Variant) -> &Arc<Policy> {
        self.rest.family.find(variant).1
    }

    pub(crate) fn family(&self) -> &Arc<Family> {
        &self.rest.family
    }

    /// Whether each state's first word names the member that wrote it.
    #[inline]
    pub(super) fn is_tagged(&self) -> bool {
        self.layout.tagged()
    }

    /// `now`, or the latest instant this shard has seen if that is later: time does not go back.
    #[inline]
    pub(crate) fn latest(&mut self, now: Timestamp) -> Timestamp {
        self.latest = self.latest.max(now);
        self.latest
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.rest.used >= self.rest.room
    }

    /// Whether a rebuild could free a slot.
    pub(super) fn may_free(&self, now: Timestamp) -> bool {
        now >= self.rest.frees_at
    }

    /// Whether some key could be forgotten.
    pub(super) fn may_give_way(&self, now: Timestamp) -> bool {
        now >= self.rest.gives_way_at
    }

    /// Where the buckets start, and how long they are together, in bytes.
    pub(super) fn extent(&self) -> (usize, usize) {
        let words = self.buckets.count() * self.layout.words();
        (self.buckets.words().as_ptr().addr(), words * size_of::<u64>())
    }

    /// The word of a key, and the policy, if that is one of one word and the key is where it is looked for first.
    #[inline(always)]
    pub(super) fn one_word(&mut self, fingerprint: u64) -> Option<(OneWord<'_>, &mut u64)> {
        let policy = self.policy.one_word().filter(|_| self.layout.is_one_word())?;
        let line = self.buckets.line_mut(home(fingerprint, self.buckets.count()))?;
        // Which of the four it is cannot be predicted, so this avoids a branch: a misprediction would delay fetching the
        // next key's memory. No two are the same.
        let is = |slot: usize| usize::from(line[slot] == fingerprint);
        let slot = is(1) + 2 * is(2) + 3 * is(3);
        let (keys, words) = line.split_at_mut(4);
        (keys[slot & 3] == fingerprint).then(|| (policy, &mut words[slot & 3]))
    }

    /// Where the words of a key start.
    #[inline]
    pub(super) fn find(&self, fingerprint: u64) -> Option<usize> {
        // Most keys are in the first bucket they probe.
        self.find_home(fingerprint).or_else(|| self.find_further(fingerprint))
    }

    #[inline]
    fn find_home(&self, fingerprint: u64) -> Option<usize> {
        let layout = self.layout;
        let start = home(fingerprint, self.buckets.count()) * layout.words();
        let bucket = self.buckets.get(start..start + layout.slots())?;
        // No branch for four of them here, either; there may be a fifth.
        let (first, rest) = bucket.split_first_chunk::<4>()?;
        let is = |slot: usize| usize::from(first[slot] == fingerprint);
        let slot = is(1) + 2 * is(2) + 3 * is(3);
        if first[slot & 3] == fingerprint {
            return Some(layout.state_of(start, slot));
        }
        let slot = rest.iter().position(|found| *found == fingerprint)?;
        Some(layout.state_of(start, first.len() + slot))
    }

    #[inline(never)]
    fn find_further(&self, fingerprint: u64) -> Option<usize> {
        match probe(self.layout, &self.buckets, fingerprint) {
            Some(Slot { free: false, state, .. }) => Some(state),
            _ => None,
        }
    }

    pub(super) fn knows(&self, fingerprint: u64) -> bool {
        self.find(fingerprint).is_some() || self.knows_special(fingerprint)
    }

    /// Whether a key stays with the variant that wrote it. Refusals and zero-cost charges never migrate a key
    /// between variants, not even to charge limits in shadow.
    pub(super) fn stays_with_another(
        &self,
        key: Key,
        now: Timestamp,
        cost: &Cost,
        verdict: Verdict,
    ) -> bool {
        let is_of_another = if self.is_special(key) {
            self.is_special_of_another(key, now)
        } else {
            // Most tables have one policy, and look nothing up for this.
            let found = if self.is_tagged() { self.find(key.fingerprint) } else { None };
            let family = &self.rest.family;
            found.is_some_and(|at| {
                let (variant, ..) = family.written(&self.buckets.words()[self.layout.key(at)]);
                variant != family.find(key.under).0
            })
        };
        if !is_of_another {
            return false;
        }
        // Dropping a state that is fresh under this variant loses nothing.
        self.read(key, now, |policy, view| {
            let is_lost = || verdict.grants() == 0 && !policy.fresh_in(view, now).is_zero();
            !policy.charges(view, now, cost, verdict) || is_lost()
        })
    }

    /// Checks the key whose words start there.
    #[inline]
    pub(super) fn check_at(&mut self, at: usize, now: Timestamp, cost: u64) -> Decision {
        let words = self.buckets.key_mut(self.layout.key(at));
        let decision = self.policy.check(&mut State::new(words, &mut self.rest.logs), now, cost);
        if self.policy.keeps_logs() {
            self.count_logs_of(Some(at));
        }
        decision
    }

    /// Whether a member of the family was not removed.
    pub(crate) fn has(&self, variant: Variant) -> bool {
        variant == Variant::BASE || self.rest.family.find(variant).0 == variant
    }

    /// Checks a key that was last charged under the same member of a family.
    pub(super) fn check_again(&mut self, key: Key, now: Timestamp, cost: u64) -> Option<Decision> {
        let at = self.find(key.fingerprint)?;
        let Rest { family, logs, .. } = &mut *self.rest;
        let words = &mut self.buckets.words_mut()[self.layout.key(at)];
        // Keys of a member that is removed are written anew, so this one was not.
        if words[0] != key.under.0 {
            return None;
        }
        let (policy, words) = family.writing(words);
        let decision = policy.check(&mut State::new(words, logs), now, cost);
        self.count_logs_of(Some(at));
        Some(decision)
    }

    /// Counts what the logs take now. Where there is no memory for more, those of the key whose words start there get
    /// coarser, or those of the overflow entry.
    #[inline]
    pub(super) fn count_logs_of(&mut self, at: Option<usize>) {
        if !self.rest.count_logs(false) {
            self.coarsen(at);
        }
    }

    #[cold]
    fn coarsen(&mut self, at: Option<usize>) {
        // A log that has grown by itself is short enough after the first time; one of a snapshot may not be.
        for _ in 0..MOST_HALVINGS {
            let Rest { family, logs, overflow, places, .. } = &mut *self.rest;
            let words = match at {
                Some(at) => &mut self.buckets.words_mut()[self.layout.key(at)],
                None => &mut overflow[..],
            };
            if !words.is_empty() {
                let (policy, words) = family.writing(words);
                policy.coarsen(&mut State::new(words, logs));
                places.count_coarsened();
            }
            if self.rest.count_logs(false) {
                return;
            }
        }
        self.rest.count_logs(true);
    }

    /// Makes the longest logs of a key coarser, so that they take less memory.
    pub(super) fn coarsen_longest(&mut self) {
        let length = |slot: &Slot| {
            let Rest { family, logs, .. } = &*self.rest;
            let (_, policy, words) =
                family.written(&self.buckets.words()[self.layout.key(slot.state)]);
            policy.log_words().map(|at| logs.entries(words[at]).len()).max().unwrap_or(0)
        };
        let taken = |slot: &Slot| self.buckets.words()[slot.fingerprint] != 0;
        let all = slots(self.layout, self.buckets.count()).filter(taken);
        let Some((2.., at)) =
            all.map(|slot| (length(&slot), slot.state)).max_by_key(|(length, _)| *length)
        else {
            return;
        };
        // There stays room for as many entries again, which the second time is less than before.
        self.coarsen(Some(at));
        self.coarsen(Some(at));
    }

    /// Adds a new key, which inherits the usage of the overflow entry. The caller has made sure that there is room.
    pub(super) fn insert(&mut self, fingerprint: u64, now: Timestamp) {
        self.clear_fresh_overflow(now);
        let Some(slot) = probe(self.layout, &self.buckets, fingerprint) else { return };
        let words = self.buckets.words_mut();
        words[slot.fingerprint] = fingerprint;
        self.rest.used += 1;
        let Rest { family, logs, overflow, .. } = &mut *self.rest;
        if !overflow.is_empty() {
            let words = &mut words[self.layout.key(slot.state)];
            // The tag, if there is one; the policy that wrote the entry copies the rest.
            words[0] = overflow[0];
            let (_, policy, from) = family.written(overflow);
            let (_, words) = family.writing(words);
            policy.copy(from, &mut State::new(words, logs));
            self.count_logs_of(Some(slot.state));
        }
    }

    /// Overflow that is fresh again has nothing to pass on to new keys.
    pub(super) fn clear_fresh_overflow(&mut self, now: Timestamp) {
        if self.rest.overflow.is_empty() {
            return;
        }
        let Rest { family, logs, overflow, .. } = &mut *self.rest;
        let (policy, words) = family.writing(overflow);
        let mut state = State::new(words, logs);
        if policy.fresh_in(state.view(), now).is_zero() {
            policy.clear(&mut state);
            *overflow = Box::default();
            self.rest.count_logs(true);
        }
    }
}

/// Where a slot's fingerprint and its words are.
pub(super) struct Slot {
    pub(super) fingerprint: usize,
    pub(super) state: usize,
    free: bool,
}

/// The slot of a fingerprint, or the free one where it would go; `None` only without any buckets.
pub(super) fn probe(layout: Layout, buckets: &Buckets, fingerprint: u64) -> Option<Slot> {
    let words = buckets.words();
    let mut bucket = home(fingerprint, buckets.count());
    for _ in 0..buckets.count() {
        let start = bucket * layout.words();
        for (i, &found) in words[start..start + layout.slots()].iter().enumerate() {
            if found == fingerprint || found == 0 {
                let state = layout.state_of(start, i);
                return Some(Slot { fingerprint: start + i, state, free: found == 0 });
            }
        }
        bucket = if bucket + 1 == buckets.count() { 0 } else { bucket + 1 };
    }
    None
}

/// Every slot, in the order in which fingerprints probe them. Cheapest by `for_each`: a `for` loop over them asks
/// at each step in which of the two loops it is.
pub(super) fn slots(layout: Layout, buckets: usize) -> impl Iterator<Item = Slot> {
    (0..buckets).flat_map(move |bucket| {
        let start = bucket * layout.words();
        (0..layout.slots()).map(move |i| Slot {
            fingerprint: start + i,
            state: layout.state_of(start, i),
            free: false,
        })
    })
}
