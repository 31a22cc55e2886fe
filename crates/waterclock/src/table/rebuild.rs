//! Laying a shard out anew: to drop fresh keys, to grow, to shrink, or for another family of policies.

use waterclock_core::Timestamp;
use waterclock_core::store::{Decide as _, Logs, State, View};

use super::family::Family;
use super::layout::{Buckets, Layout};
use super::shard::{Rest, Shard, probe, slots};
use crate::sync::Arc;

/// A shard gives up one in so many of its keys at once: looking for them costs more than forgetting them.
const KEYS_PER_EVICTED: usize = 8;

/// Why a shard is laid out anew.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rebuild<'a> {
    /// It is crowded, or the table is full. It never gets smaller: where keys become fresh soon, the next ones
    /// need the room.
    Tidy,
    /// To give memory back.
    Smaller,
    /// It gets another family.
    Under(&'a Arc<Family>),
}

impl Shard {
    /// Lays the shard out anew without the keys that are fresh. Returns how many were dropped.
    pub(super) fn rebuild(&mut self, how: Rebuild<'_>, now: Timestamp) -> usize {
        let before = self.rest.used;
        self.drop_fresh(now);
        let special = self.drop_fresh_specials(now);
        let live = self.rest.used;
        let needed = self.layout.buckets_for(live);
        match how {
            Rebuild::Tidy if live == before && !self.is_crowded() => {}
            Rebuild::Tidy => self.move_words(needed.max(self.buckets.count())),
            Rebuild::Smaller => self.move_words(needed),
            Rebuild::Under(family) => self.move_to(family, now),
        }
        self.rest.count_logs(true);
        before - live + special
    }

    /// Takes a key out of its slot, without its logs.
    pub(super) fn remove_slot(&mut self, fingerprint: u64) {
        if let Some(slot) = probe(self.layout, &self.buckets, fingerprint) {
            self.buckets.words_mut()[slot.fingerprint] = 0;
            self.rest.used -= 1;
            // Probes end at a free slot, so those behind it move up.
            self.move_words(self.buckets.count());
        }
    }

    /// Forgets some keys of which at most half is used, those nearest to fresh first. Returns how many.
    pub(super) fn evict(&mut self, now: Timestamp) -> usize {
        let Rest { family, logs, used, gives_way_at, .. } = &mut *self.rest;
        let mut nearest = Vec::with_capacity(*used);
        *gives_way_at = Timestamp::MAX;
        let all = self.buckets.words();
        slots(self.layout, self.buckets.count()).for_each(|slot| {
            if all[slot.fingerprint] == 0 {
                return;
            }
            let (_, policy, words) = family.written(&all[self.layout.key(slot.state)]);
            let view = View::new(words, logs);
            let half_fresh_in = policy.half_fresh_in(view, now);
            *gives_way_at = (*gives_way_at).min(now.after(half_fresh_in));
            if half_fresh_in.is_zero() {
                nearest.push((policy.fresh_in(view, now), slot));
            }
        });
        let most = used.div_ceil(KEYS_PER_EVICTED);
        if nearest.len() > most {
            nearest.select_nth_unstable_by_key(most, |(fresh_in, _)| *fresh_in);
            nearest.truncate(most);
        }
        for (_, slot) in &nearest {
            let words = self.buckets.words_mut();
            let (policy, state) = family.writing(&mut words[self.layout.key(slot.state)]);
            policy.clear(&mut State::new(state, logs));
            words[slot.fingerprint] = 0;
        }
        *used -= nearest.len();
        let special = self.evict_specials(most.max(1), now);
        if !nearest.is_empty() {
            // What is given up here is taken elsewhere, and the memory with it.
            let (needed, count) = (self.layout.buckets_for(self.rest.used), self.buckets.count());
            self.move_words(if 2 * needed < count { needed } else { count });
        }
        if nearest.len() + special > 0 {
            self.rest.count_logs(true);
        }
        nearest.len() + special
    }

    /// Forgets every key, and what those without a place share. Returns how many keys there were.
    pub(super) fn clear(&mut self) -> usize {
        let used = std::mem::take(&mut self.rest.used) + self.clear_specials();
        (self.buckets, self.rest.room) = (Buckets::default(), 0);
        (self.rest.logs, self.rest.overflow) = (Logs::new(), Box::default());
        (self.rest.frees_at, self.rest.gives_way_at) = (Timestamp::MAX, Timestamp::MAX);
        self.rest.count_logs(true);
        used
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
        let Rest { family, logs, used, frees_at, gives_way_at, .. } = &mut *self.rest;
        (*frees_at, *gives_way_at) = (Timestamp::MAX, now);
        all.for_each(|slot| {
            if words[slot.fingerprint] == 0 {
                return;
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
        });
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
            let mut overflow = vec![0; layout.state()].into_boxed_slice();
            let from = &self.rest.overflow;
            family.take_over(&before, from, &self.rest.logs, &mut overflow, &mut logs, now);
            self.rest.overflow = overflow;
        }
        self.move_specials(family, &mut logs, now);
        (self.policy, self.layout, self.buckets) = (Arc::clone(&family.base), layout, buckets);
        self.rest.family = Arc::clone(family);
        (self.rest.logs, self.rest.room) = (logs, layout.room(new));
        self.rest.frees_soon(now);
    }
}

/// Moves every key to other buckets, with `copy` from its old words to its new ones.
fn transfer(
    (old_layout, old): (Layout, &Buckets),
    (layout, buckets): (Layout, &mut Buckets),
    mut copy: impl FnMut(&[u64], &mut [u64]),
) {
    let from = old.words();
    slots(old_layout, old.count()).for_each(|slot| {
        let fingerprint = from[slot.fingerprint];
        if fingerprint != 0
            && let Some(to) = probe(layout, buckets, fingerprint)
        {
            let words = buckets.words_mut();
            words[to.fingerprint] = fingerprint;
            copy(&from[old_layout.key(slot.state)], &mut words[layout.key(to.state)]);
        }
    });
}
