//! One shard: a small open-addressing table of fingerprints and states.
//!
//! Slots are only ever added. A key that became fresh again stays where it is until the shard gets
//! crowded; then the shard is rebuilt without the fresh ones, and larger only if what is left needs
//! it. That is all there is to growing and sweeping, and it happens under the shard's lock, so nobody
//! sees half of it.

use waterclock_core::store::{
    Decide as _, Logs, Migrate as _, Reserve as _, ReservedUnits, State, Verdict, View,
};
use waterclock_core::{Cost, Decision, Outcome, Policy, Timestamp};

use super::family::{Family, Key, MOST_WORDS, Variant};
use super::layout::{Buckets, Layout, home};
use crate::store::{Answer, Source};
use crate::sync::Arc;

/// A state nobody wrote yet: as many zeros as the largest policy has words.
static FRESH: [u64; MOST_WORDS] = [0; MOST_WORDS];

/// What every decision needs; with the lock beside it, it fills one cache line.
#[derive(Debug)]
pub(crate) struct Shard {
    /// The family's base, which is all there is of most.
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
    used: usize,
    /// Slots that may be used before the shard is rebuilt.
    room: usize,
    /// No slot becomes fresh before this.
    pub(super) frees_at: Timestamp,
    pub(super) logs: Logs,
    /// What keys that found no place share; empty until the first does.
    pub(super) overflow: Vec<u64>,
}

impl Shard {
    pub(super) fn new(family: &Arc<Family>) -> Self {
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
                logs: Logs::new(),
                overflow: Vec::new(),
            }),
        }
    }

    /// The policy that a member of the family is.
    pub(crate) fn policy(&self, variant: Variant) -> &Arc<Policy> {
        self.rest.family.find(variant).1
    }

    pub(crate) fn family(&self) -> &Arc<Family> {
        &self.rest.family
    }

    /// Whether states say by which member they were written.
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

    /// Where the buckets start, and how long they are together, in bytes.
    pub(super) fn extent(&self) -> (usize, usize) {
        let words = self.buckets.count() * self.layout.words();
        (self.buckets.words().as_ptr().addr(), words * size_of::<u64>())
    }

    /// Where the words of a key start.
    #[inline]
    pub(super) fn find(&self, fingerprint: u64) -> Option<usize> {
        // Most keys are in the first bucket they probe. With one word of state that is one line, and
        // numbers that the compiler knows make it a few comparisons.
        let home = if self.layout == Layout::ONE_WORD {
            self.find_home(Layout::ONE_WORD, fingerprint)
        } else {
            self.find_home(self.layout, fingerprint)
        };
        home.or_else(|| self.find_further(fingerprint))
    }

    #[inline(always)]
    fn find_home(&self, layout: Layout, fingerprint: u64) -> Option<usize> {
        let start = home(fingerprint, self.buckets.count()) * layout.words();
        let bucket = self.buckets.words().get(start..start + layout.slots())?;
        // Which slot it is cannot be predicted: no branch, or the processor stops guessing and the
        // next key's memory is not fetched meanwhile.
        let slots = bucket
            .iter()
            .enumerate()
            .fold(0_u32, |set, (i, found)| set | u32::from(*found == fingerprint) << i);
        let slot = slots.trailing_zeros() as usize;
        (slots != 0).then_some(layout.state_of(start, slot))
    }

    #[inline(never)]
    fn find_further(&self, fingerprint: u64) -> Option<usize> {
        match probe(self.layout, &self.buckets, fingerprint) {
            Some(Slot { free: false, state, .. }) => Some(state),
            _ => None,
        }
    }

    pub(super) fn knows(&self, fingerprint: u64) -> bool {
        self.find(fingerprint).is_some()
    }

    /// Whether a key is left as another member of the family wrote it: a refusal moves nothing to other
    /// numbers, not even for the sake of limits in shadow, and nor does what charges nothing.
    pub(super) fn stays_with_another(
        &self,
        key: Key,
        now: Timestamp,
        cost: &Cost,
        verdict: Verdict,
    ) -> bool {
        // Most tables have one member, and look nothing up for this.
        let found = if self.is_tagged() { self.find(key.fingerprint) } else { None };
        let Some(at) = found else { return false };
        let family = &self.rest.family;
        let (variant, ..) = family.written(&self.buckets.words()[self.layout.key(at)]);
        if variant == family.find(key.under).0 {
            return false;
        }
        // What is nothing to this member is no loss.
        self.look(key, now, |policy, view| {
            let is_lost = || verdict.grants() == 0 && !policy.fresh_in(view, now).is_zero();
            !policy.charges(view, now, cost, verdict) || is_lost()
        })
    }

    /// Checks the key whose words start there.
    #[inline]
    pub(super) fn check_at(&mut self, at: usize, now: Timestamp, cost: u64) -> Decision {
        if let Some(policy) = self.policy.one_word() {
            return policy.check(&mut self.buckets.words_mut()[at], now, cost);
        }
        self.check_words_at(at, now, cost)
    }

    #[inline(never)]
    fn check_words_at(&mut self, at: usize, now: Timestamp, cost: u64) -> Decision {
        let words = &mut self.buckets.words_mut()[self.layout.key(at)];
        self.policy.check(&mut State::new(words, &mut self.rest.logs), now, cost)
    }

    /// Checks a key that was last charged under the same member of a family.
    pub(super) fn check_again(&mut self, key: Key, now: Timestamp, cost: u64) -> Option<Decision> {
        let at = self.find(key.fingerprint)?;
        let Rest { family, logs, .. } = &mut *self.rest;
        let words = &mut self.buckets.words_mut()[self.layout.key(at)];
        if family.find(key.under).0.0 != words[0] {
            return None;
        }
        let (policy, words) = family.writing(words);
        Some(policy.check(&mut State::new(words, logs), now, cost))
    }

    /// What is remembered of a key, as the member sees it that it is asked under; of an unknown one, what
    /// the overflow entry remembers.
    fn look<T>(&self, key: Key, now: Timestamp, look: impl FnOnce(&Policy, View<'_>) -> T) -> T {
        let Rest { family, logs, overflow, .. } = &*self.rest;
        let words = match self.find(key.fingerprint) {
            Some(at) => &self.buckets.words()[self.layout.key(at)],
            None if overflow.is_empty() => &FRESH[..self.layout.state()],
            None => overflow,
        };
        if !self.is_tagged() {
            return look(&self.policy, View::new(words, logs));
        }
        let (variant, by, words) = family.written(words);
        let view = View::new(words, logs);
        if variant == family.find(key.under).0 {
            return look(by, view);
        }
        family.seen(key.under, view, by, now, look)
    }

    pub(crate) fn judge(&self, key: Key, now: Timestamp, cost: &Cost) -> Verdict {
        self.look(key, now, |policy, view| policy.judge(view, now, cost))
    }

    pub(crate) fn answer(
        &self,
        key: Key,
        now: Timestamp,
        cost: &Cost,
        verdict: Verdict,
    ) -> Decision {
        self.look(key, now, |policy, view| policy.answer(view, now, cost, verdict))
    }

    /// The answer to a check where only reservations are admitted.
    pub(super) fn refuse_check(&self, key: Key, now: Timestamp, cost: &Cost) -> Decision {
        self.look(key, now, |policy, view| policy.refuse_check(view, now, cost))
    }

    /// The decision with each limit's own numbers.
    pub(crate) fn answer_in_full(
        &self,
        key: Key,
        now: Timestamp,
        cost: &Cost,
        verdict: Verdict,
    ) -> Answer {
        self.look(key, now, |policy, view| {
            let decision = policy.answer(view, now, cost, verdict);
            let limits = policy.each(view, now, cost, verdict).collect();
            Answer { decision, limits, source: Source::Authoritative }
        })
    }

    /// Charges the key, or the overflow entry if the key has no place.
    pub(super) fn record(&mut self, key: Key, now: Timestamp, cost: &Cost, verdict: Verdict) {
        self.write(key, now, false, |policy, state| policy.record(state, now, cost, verdict));
    }

    /// The same for what was used already.
    pub(super) fn debit(&mut self, key: Key, now: Timestamp, cost: &Cost) {
        self.write(key, now, true, |policy, state| policy.debit(state, now, cost));
    }

    /// The same for how it ended.
    pub(super) fn report(&mut self, key: Key, now: Timestamp, outcome: Outcome, times: &Cost) {
        self.write(key, now, true, |policy, state| policy.report(state, now, outcome, times));
        // A breaker that closes is fresh at once.
        self.rest.frees_at = self.rest.frees_at.min(now);
    }

    /// The same for what can be settled.
    pub(super) fn hold(
        &mut self,
        key: Key,
        now: Timestamp,
        cost: &Cost,
        verdict: Verdict,
        until: Timestamp,
    ) -> ReservedUnits {
        self.write(key, now, false, |policy, state| policy.hold(state, now, cost, verdict, until))
    }

    /// Makes what was held what was used. A key without a place gets nothing back: what it shares was paid
    /// for by others too.
    pub(super) fn settle(
        &mut self,
        key: Key,
        now: Timestamp,
        then: &Arc<Policy>,
        held: &ReservedUnits,
        used: &Cost,
    ) {
        let (known, may_owe) = (self.knows(key.fingerprint), held.is_less_than(then, used));
        if !known && !may_owe {
            return;
        }
        self.write(key, now, true, |policy, state| {
            let carried = (!std::ptr::eq(policy, &**then)).then(|| held.migrated(then, policy));
            let held = carried.as_ref().unwrap_or(held);
            if known {
                policy.settle(state, now, held, used);
            } else {
                policy.settle(state, now, &held.at_most(policy, used), used);
            }
        });
        // Something may be fresh now that was not.
        self.rest.frees_at = self.rest.frees_at.min(now);
    }

    /// Frees what is held at once, and nothing else.
    pub(super) fn release(
        &mut self,
        key: Key,
        now: Timestamp,
        then: &Arc<Policy>,
        held: &ReservedUnits,
    ) {
        if !self.knows(key.fingerprint) {
            return;
        }
        self.write(key, now, true, |policy, state| {
            policy.release(state, now, &held.migrated(then, policy));
        });
        self.rest.frees_at = self.rest.frees_at.min(now);
    }

    /// Writes what is remembered of a key, as the member that it is asked under; of an unknown one, what
    /// the overflow entry remembers.
    fn write<T>(
        &mut self,
        key: Key,
        now: Timestamp,
        owes: bool,
        write: impl FnOnce(&Policy, &mut State<'_>) -> T,
    ) -> T {
        let found = self.find(key.fingerprint);
        let Rest { family, logs, overflow, frees_at, .. } = &mut *self.rest;
        let words = match found {
            Some(at) => &mut self.buckets.words_mut()[self.layout.key(at)],
            None => {
                overflow.resize(self.layout.state(), 0);
                &mut overflow[..]
            }
        };
        family.enter(key.under, words, logs, now, owes);
        let (policy, words) = family.writing(words);
        let mut state = State::new(words, logs);
        let written = write(policy, &mut state);
        *frees_at = (*frees_at).min(now.after(policy.fresh_in(state.view(), now)));
        written
    }

    pub(crate) fn refund(&mut self, key: Key, now: Timestamp, cost: &Cost) {
        // A key without a place gets nothing back: what it shares was paid for by others too.
        if let Some(at) = self.find(key.fingerprint) {
            let words = &mut self.buckets.words_mut()[self.layout.key(at)];
            let Rest { family, logs, frees_at, .. } = &mut *self.rest;
            family.refund(key.under, words, logs, now, cost);
            *frees_at = now;
        }
    }

    pub(crate) fn reset(&mut self, fingerprint: u64) {
        if let Some(at) = self.find(fingerprint) {
            let words = &mut self.buckets.words_mut()[self.layout.key(at)];
            let (policy, words) = self.rest.family.writing(words);
            policy.clear(&mut State::new(words, &mut self.rest.logs));
            self.rest.frees_at = Timestamp::ZERO;
        }
    }

    /// Adds a new key, with what it may have spent in the overflow entry. There is room.
    pub(super) fn insert(&mut self, fingerprint: u64, now: Timestamp) {
        self.forget_fresh_overflow(now);
        let Some(slot) = probe(self.layout, &self.buckets, fingerprint) else { return };
        let words = self.buckets.words_mut();
        words[slot.fingerprint] = fingerprint;
        self.rest.used += 1;
        let Rest { family, logs, overflow, .. } = &mut *self.rest;
        if !overflow.is_empty() {
            let words = &mut words[self.layout.key(slot.state)];
            // The tag, if there is one; the rest is filled by who wrote it.
            words[0] = overflow[0];
            let (_, policy, from) = family.written(overflow);
            let (_, words) = family.writing(words);
            policy.copy(from, &mut State::new(words, logs));
        }
    }

    /// Overflow that is fresh again has nothing to pass on to new keys.
    fn forget_fresh_overflow(&mut self, now: Timestamp) {
        if self.rest.overflow.is_empty() {
            return;
        }
        let Rest { family, logs, overflow, .. } = &mut *self.rest;
        let (policy, words) = family.writing(overflow);
        let mut state = State::new(words, logs);
        if policy.fresh_in(state.view(), now).is_zero() {
            policy.clear(&mut state);
            *overflow = Vec::new();
        }
    }

    /// Lays the shard out anew without the keys that are fresh. Returns how many were dropped.
    pub(super) fn rebuild(&mut self, how: Rebuild<'_>, now: Timestamp) -> usize {
        let before = self.rest.used;
        self.drop_fresh(now);
        let live = self.rest.used;
        let needed = self.layout.buckets_for(live);
        match how {
            Rebuild::Tidy if live == before && !self.is_crowded() => {}
            Rebuild::Tidy => self.move_words(needed.max(self.buckets.count())),
            Rebuild::Smaller => self.move_words(needed),
            Rebuild::Under(family) => self.move_to(family, now),
        }
        before - live
    }

    /// Makes room for so many more keys.
    pub(super) fn expect(&mut self, more: usize) {
        let needed = self.layout.buckets_for(self.rest.used + more);
        if needed > self.buckets.count() && more > 0 {
            self.move_words(needed);
        }
    }

    /// Frees the slots of keys that are fresh. Probes do not work until the shard is laid out anew.
    fn drop_fresh(&mut self, now: Timestamp) {
        let all = slots(self.layout, self.buckets.count());
        let words = self.buckets.words_mut();
        let Rest { family, logs, used, frees_at, .. } = &mut *self.rest;
        *frees_at = Timestamp::MAX;
        for slot in all {
            if words[slot.fingerprint] == 0 {
                continue;
            }
            let (policy, state) = family.writing(&mut words[self.layout.key(slot.state)]);
            let mut state = State::new(state, logs);
            let fresh_in = policy.fresh_in(state.view(), now);
            if fresh_in.is_zero() {
                policy.clear(&mut state);
                words[slot.fingerprint] = 0;
                *used -= 1;
            } else {
                *frees_at = (*frees_at).min(now.after(fresh_in));
            }
        }
    }

    /// Moves every key to so many buckets.
    fn move_words(&mut self, new: usize) {
        let old = std::mem::replace(&mut self.buckets, Buckets::new(self.layout, new));
        self.rest.room = self.layout.room(new);
        transfer((self.layout, &old), (self.layout, &mut self.buckets), |from, to| {
            to.copy_from_slice(from);
        });
    }

    /// Takes another family that only has more members.
    pub(super) fn join(&mut self, family: &Arc<Family>) {
        self.rest.family = Arc::clone(family);
    }

    /// Moves every key, and the overflow entry, to another family; what was spent stays spent.
    fn move_to(&mut self, family: &Arc<Family>, now: Timestamp) {
        let layout = Layout::new(family);
        let new = layout.buckets_for(self.rest.used);
        let mut buckets = Buckets::new(layout, new);
        let mut logs = Logs::new();
        let before = Arc::clone(&self.rest.family);
        transfer((self.layout, &self.buckets), (layout, &mut buckets), |from, to| {
            family.take_over(&before, from, &self.rest.logs, to, &mut logs, now);
        });
        if !self.rest.overflow.is_empty() {
            let mut overflow = vec![0; layout.state()];
            let from = &self.rest.overflow;
            family.take_over(&before, from, &self.rest.logs, &mut overflow, &mut logs, now);
            self.rest.overflow = overflow;
        }
        (self.policy, self.layout, self.buckets) = (Arc::clone(&family.base), layout, buckets);
        self.rest.family = Arc::clone(family);
        (self.rest.logs, self.rest.room, self.rest.frees_at) = (logs, layout.room(new), now);
    }
}

/// Moves every key to other buckets, with `carry` from its old words to its new ones.
fn transfer(
    (old_layout, old): (Layout, &Buckets),
    (layout, buckets): (Layout, &mut Buckets),
    mut carry: impl FnMut(&[u64], &mut [u64]),
) {
    let from = old.words();
    for slot in slots(old_layout, old.count()) {
        let fingerprint = from[slot.fingerprint];
        if fingerprint != 0
            && let Some(to) = probe(layout, buckets, fingerprint)
        {
            let words = buckets.words_mut();
            words[to.fingerprint] = fingerprint;
            carry(&from[old_layout.key(slot.state)], &mut words[layout.key(to.state)]);
        }
    }
}

/// Why a shard is laid out anew.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rebuild<'a> {
    /// It is crowded, or the table is full. It never gets smaller by that: where keys come and are
    /// fresh again soon, the room they took is needed for the next ones.
    Tidy,
    /// Somebody wants the memory back.
    Smaller,
    /// It gets another family.
    Under(&'a Arc<Family>),
}

/// Where a slot's fingerprint and its words are.
pub(super) struct Slot {
    pub(super) fingerprint: usize,
    pub(super) state: usize,
    free: bool,
}

/// The slot of a fingerprint, or the free one where it would go; `None` only without any buckets.
fn probe(layout: Layout, buckets: &Buckets, fingerprint: u64) -> Option<Slot> {
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

/// Every slot, in the order in which fingerprints probe them.
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
