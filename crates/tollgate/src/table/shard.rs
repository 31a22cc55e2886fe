//! One shard: a small open-addressing table of fingerprints and states.
//!
//! Slots are only ever added. A key that became fresh again stays where it is until the shard gets
//! crowded; then the shard is rebuilt without the fresh ones, and larger only if what is left needs
//! it. That is all there is to growing, shrinking and sweeping, and it happens under the shard's
//! lock, so nobody sees half of it.

use tollgate_core::{Decision, Logs, Policy, State, Timestamp, Verdict, View};

use super::layout::{Buckets, Layout, home};
use crate::store::Answer;
use crate::sync::Arc;

/// A state nobody wrote yet: as many zeros as the largest policy has words.
static FRESH: [u64; 128] = [0; 128];

#[derive(Debug)]
pub(crate) struct Shard {
    policy: Arc<Policy>,
    layout: Layout,
    buckets: Buckets,
    /// Slots in use, fresh ones included.
    used: usize,
    /// Slots that may be used before the shard is rebuilt.
    room: usize,
    latest: Timestamp,
    /// No slot becomes fresh before this.
    frees_at: Timestamp,
    logs: Logs,
    /// What keys that found no place share; empty until the first does.
    overflow: Vec<u64>,
}

impl Shard {
    pub(super) fn new(policy: &Arc<Policy>) -> Self {
        Self {
            policy: Arc::clone(policy),
            layout: Layout::new(policy.words()),
            buckets: Buckets::default(),
            used: 0,
            room: 0,
            latest: Timestamp::ZERO,
            frees_at: Timestamp::MAX,
            logs: Logs::new(),
            overflow: Vec::new(),
        }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// `now`, or the latest instant this shard has seen if that is later: time does not go back.
    #[inline]
    pub(crate) fn latest(&mut self, now: Timestamp) -> Timestamp {
        self.latest = self.latest.max(now);
        self.latest
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.used >= self.room
    }

    /// Whether a rebuild could free a slot.
    pub(super) fn may_free(&self, now: Timestamp) -> bool {
        now >= self.frees_at
    }

    pub(super) fn buckets(&self) -> usize {
        self.buckets.count
    }

    /// Where the buckets are and how long one is, in bytes.
    pub(super) fn address(&self) -> (usize, usize) {
        (self.buckets.words().as_ptr().addr(), self.layout.bucket_bytes())
    }

    /// Where the words of a key start.
    #[inline]
    fn find(&self, fingerprint: u64) -> Option<usize> {
        match probe(self.layout, &self.buckets, fingerprint) {
            Some(Slot { free: false, state, .. }) => Some(state),
            _ => None,
        }
    }

    pub(super) fn knows(&self, fingerprint: u64) -> bool {
        self.find(fingerprint).is_some()
    }

    #[inline]
    pub(super) fn check_known(
        &mut self,
        fingerprint: u64,
        now: Timestamp,
        cost: u64,
    ) -> Option<Decision> {
        let at = self.find(fingerprint)?;
        let words = &mut self.buckets.words_mut()[at..at + self.layout.state];
        Some(self.policy.check(&mut State::new(words, &mut self.logs), now, cost))
    }

    /// What is remembered of a key; of an unknown one, what the overflow entry remembers.
    fn view(&self, fingerprint: u64) -> View<'_> {
        let words = match self.find(fingerprint) {
            Some(at) => &self.buckets.words()[at..at + self.layout.state],
            None if self.overflow.is_empty() => &FRESH[..self.layout.state],
            None => &self.overflow,
        };
        View::new(words, &self.logs)
    }

    pub(crate) fn judge(&self, fingerprint: u64, now: Timestamp, cost: u64) -> Verdict {
        self.policy.judge(self.view(fingerprint), now, cost)
    }

    pub(crate) fn answer(
        &self,
        fingerprint: u64,
        now: Timestamp,
        cost: u64,
        verdict: Verdict,
    ) -> Decision {
        self.policy.answer(self.view(fingerprint), now, cost, verdict)
    }

    /// The decision with each limit's own numbers.
    pub(crate) fn answer_in_full(
        &self,
        fingerprint: u64,
        now: Timestamp,
        cost: u64,
        verdict: Verdict,
    ) -> Answer {
        let view = self.view(fingerprint);
        let decision = self.policy.answer(view, now, cost, verdict);
        Answer { decision, limits: self.policy.each(view, now, cost, verdict).collect() }
    }

    /// Charges the key, or the overflow entry if the key has no place.
    pub(super) fn record(&mut self, fingerprint: u64, now: Timestamp, cost: u64, verdict: Verdict) {
        let words = match self.find(fingerprint) {
            Some(at) => &mut self.buckets.words_mut()[at..at + self.layout.state],
            None => {
                self.overflow.resize(self.layout.state, 0);
                &mut self.overflow[..]
            }
        };
        let mut state = State::new(words, &mut self.logs);
        self.policy.record(&mut state, now, cost, verdict);
        self.frees_at = self.frees_at.min(self.policy.fresh_at(state.view(), now));
    }

    pub(crate) fn refund(&mut self, fingerprint: u64, now: Timestamp, cost: u64) {
        // A key without a place gets nothing back: what it shares was paid for by others too.
        if let Some(at) = self.find(fingerprint) {
            let words = &mut self.buckets.words_mut()[at..at + self.layout.state];
            self.policy.refund(&mut State::new(words, &mut self.logs), now, cost);
            self.frees_at = now;
        }
    }

    pub(crate) fn reset(&mut self, fingerprint: u64) {
        if let Some(at) = self.find(fingerprint) {
            let words = &mut self.buckets.words_mut()[at..at + self.layout.state];
            self.policy.clear(&mut State::new(words, &mut self.logs));
            self.frees_at = Timestamp::ZERO;
        }
    }

    /// Adds a new key, with what it may have spent in the overflow entry. There is room.
    pub(super) fn insert(&mut self, fingerprint: u64, now: Timestamp) {
        self.forget_fresh_overflow(now);
        let Some(slot) = probe(self.layout, &self.buckets, fingerprint) else { return };
        let words = self.buckets.words_mut();
        words[slot.fingerprint] = fingerprint;
        self.used += 1;
        if !self.overflow.is_empty() {
            let words = &mut words[slot.state..slot.state + self.layout.state];
            self.policy.copy(&self.overflow, &mut State::new(words, &mut self.logs));
        }
    }

    /// Overflow that is fresh again has nothing to pass on to new keys.
    fn forget_fresh_overflow(&mut self, now: Timestamp) {
        if self.overflow.is_empty() {
            return;
        }
        let mut overflow = State::new(&mut self.overflow, &mut self.logs);
        if self.policy.fresh_at(overflow.view(), now) <= now {
            self.policy.clear(&mut overflow);
            self.overflow = Vec::new();
        }
    }

    /// Lays the shard out anew without the keys that are fresh, under another policy if one is
    /// given. Returns how many keys were dropped.
    pub(super) fn rebuild(&mut self, policy: Option<&Arc<Policy>>, now: Timestamp) -> usize {
        let before = self.used;
        self.drop_fresh(now);
        let live = self.used;
        match policy {
            Some(policy) => self.move_to(policy, now),
            None => self.move_words(),
        }
        before - live
    }

    /// Frees the slots of keys that are fresh. Probes do not work until the shard is laid out anew.
    fn drop_fresh(&mut self, now: Timestamp) {
        self.frees_at = Timestamp::MAX;
        let all = slots(self.layout, self.buckets.count);
        let words = self.buckets.words_mut();
        for slot in all {
            if words[slot.fingerprint] == 0 {
                continue;
            }
            let state = &mut words[slot.state..slot.state + self.layout.state];
            let mut state = State::new(state, &mut self.logs);
            let fresh_at = self.policy.fresh_at(state.view(), now);
            if fresh_at <= now {
                self.policy.clear(&mut state);
                words[slot.fingerprint] = 0;
                self.used -= 1;
            } else {
                self.frees_at = self.frees_at.min(fresh_at);
            }
        }
    }

    /// Moves every key to buckets of the right number.
    fn move_words(&mut self) {
        let new = self.layout.buckets_for(self.used);
        let old = std::mem::replace(&mut self.buckets, Buckets::new(self.layout, new));
        self.room = self.layout.room(new);
        for slot in slots(self.layout, old.count) {
            let from = old.words();
            if from[slot.fingerprint] != 0
                && let Some(to) = probe(self.layout, &self.buckets, from[slot.fingerprint])
            {
                let words = self.buckets.words_mut();
                words[to.fingerprint] = from[slot.fingerprint];
                words[to.state..to.state + self.layout.state]
                    .copy_from_slice(&from[slot.state..slot.state + self.layout.state]);
            }
        }
    }

    /// Moves every key, and the overflow entry, to another policy; what was spent stays spent.
    fn move_to(&mut self, policy: &Arc<Policy>, now: Timestamp) {
        let layout = Layout::new(policy.words());
        let new = layout.buckets_for(self.used);
        let mut buckets = Buckets::new(layout, new);
        let mut logs = Logs::new();
        for slot in slots(self.layout, self.buckets.count) {
            let from = self.buckets.words();
            if from[slot.fingerprint] != 0
                && let Some(to) = probe(layout, &buckets, from[slot.fingerprint])
            {
                let words = buckets.words_mut();
                words[to.fingerprint] = from[slot.fingerprint];
                let memory =
                    View::new(&from[slot.state..slot.state + self.layout.state], &self.logs);
                let state = &mut words[to.state..to.state + layout.state];
                policy.carry(&self.policy, memory, &mut State::new(state, &mut logs), now);
            }
        }
        if !self.overflow.is_empty() {
            let mut overflow = vec![0; layout.state];
            let memory = View::new(&self.overflow, &self.logs);
            policy.carry(&self.policy, memory, &mut State::new(&mut overflow, &mut logs), now);
            self.overflow = overflow;
        }
        (self.policy, self.layout, self.buckets) = (Arc::clone(policy), layout, buckets);
        (self.logs, self.room, self.frees_at) = (logs, layout.room(new), now);
    }
}

/// Where a slot's fingerprint and its words are.
struct Slot {
    fingerprint: usize,
    state: usize,
    free: bool,
}

/// The slot of a fingerprint, or the free one where it would go; `None` only without any buckets.
#[inline]
fn probe(layout: Layout, buckets: &Buckets, fingerprint: u64) -> Option<Slot> {
    let words = buckets.words();
    let mut bucket = home(fingerprint, buckets.count);
    for _ in 0..buckets.count {
        let start = bucket * layout.words;
        for (i, &found) in words[start..start + layout.slots].iter().enumerate() {
            if found == fingerprint || found == 0 {
                let state = start + layout.slots + i * layout.state;
                return Some(Slot { fingerprint: start + i, state, free: found == 0 });
            }
        }
        bucket = if bucket + 1 == buckets.count { 0 } else { bucket + 1 };
    }
    None
}

/// Every slot, in the order in which fingerprints probe them.
fn slots(layout: Layout, buckets: usize) -> impl Iterator<Item = Slot> {
    (0..buckets).flat_map(move |bucket| {
        let start = bucket * layout.words;
        (0..layout.slots).map(move |i| Slot {
            fingerprint: start + i,
            state: start + layout.slots + i * layout.state,
            free: false,
        })
    })
}
