//! Keys with limits of their own: those that have an override, and those that were last charged under a factor.
//!
//! They are apart from the slots, so that all other keys pay nothing for them. A key is in one of the two places: with an
//! override it is here, and without one it goes back to a slot once it was fresh.

use std::collections::BTreeMap;

use waterclock_core::store::{Decide as _, Logs, Migrate as _, Persist as _, State, View};
use waterclock_core::{Cost, Factor, Policy, Timestamp};

use super::Saved;
use super::family::{Family, Key, MOST_WORDS, Variant};
use super::shard::{Rest, Shard};
use super::states::FRESH;
use crate::store::{Answer, Applied, Override};
use crate::sync::Arc;

/// The limits by which a state was written, or by which a key is to be decided.
#[derive(Clone, Debug)]
pub(crate) enum By {
    /// A member of the family, by a factor.
    Member(Variant, Option<Factor>),
    /// Limits of a key's own.
    Own(Arc<Policy>),
}

impl PartialEq for By {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Member(a, by_a), Self::Member(b, by_b)) => (a, by_a) == (b, by_b),
            (Self::Own(a), Self::Own(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// An override as a shard keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) key: Box<[u8]>,
    pub(crate) rule: Override,
    /// The limits of the rule, if it has some.
    pub(crate) own: Option<Arc<Policy>>,
    /// The last instant there is, if it does not expire.
    pub(crate) expires_at: Timestamp,
}

/// What the override of a key leaves to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The limits decide.
    Limited,
    Blocked,
    Exempt,
}

/// A policy of the family, or one that was made from it.
pub(crate) enum PolicyRef<'a> {
    Usual(&'a Arc<Policy>),
    Special(Arc<Policy>),
}

impl PolicyRef<'_> {
    pub(crate) fn to_arc(&self) -> Arc<Policy> {
        match self {
            Self::Usual(policy) => Arc::clone(policy),
            Self::Special(policy) => Arc::clone(policy),
        }
    }
}

impl std::ops::Deref for PolicyRef<'_> {
    type Target = Policy;

    #[inline]
    fn deref(&self) -> &Policy {
        match self {
            Self::Usual(policy) => policy,
            Self::Special(policy) => policy,
        }
    }
}

/// A key with limits of its own.
#[derive(Debug)]
pub(super) struct Special {
    pub(super) kept: Option<Arc<Kept>>,
    /// Whether it has a place, and a state.
    pub(super) is_placed: bool,
    pub(super) by: By,
    pub(super) words: Vec<u64>,
}

impl Special {
    fn new(kept: Option<Arc<Kept>>) -> Self {
        Self { kept, is_placed: false, by: By::Member(Variant::BASE, None), words: Vec::new() }
    }

    /// Drops the state, with its place.
    fn drop_state(&mut self) {
        (self.is_placed, self.words) = (false, Vec::new());
    }

    /// Whether there is something to remember of it.
    fn matters(&self) -> bool {
        self.kept.is_some() || self.is_placed
    }

    /// Makes its state one of these limits.
    fn enter(&mut self, family: &Family, to: By, logs: &mut Logs, now: Timestamp, owes: bool) {
        if self.by == to {
            return;
        }
        let (from, policy) = (family.by(&self.by), family.by(&to));
        let (mut seen_words, mut seen_logs) = ([0; MOST_WORDS], Logs::new());
        let mut seen = State::new(&mut seen_words[..policy.words()], &mut seen_logs);
        family.carry((&from, View::new(&self.words, logs)), (&policy, &mut seen), now, owes);
        from.clear(&mut State::new(&mut self.words, logs));
        self.words = vec![0; policy.words()];
        policy.adopt(seen.view(), &mut State::new(&mut self.words, logs));
        self.by = to;
    }
}

/// The keys of a shard with limits of their own, by fingerprint.
#[derive(Debug, Default)]
pub(super) struct Specials(pub(super) BTreeMap<u64, Box<Special>>);

impl Specials {
    fn get(&self, fingerprint: u64) -> Option<&Special> {
        self.0.get(&fingerprint).map(|special| &**special)
    }

    /// The one of a key, if it has a state.
    fn with_state(&self, fingerprint: u64) -> Option<&Special> {
        self.get(fingerprint).filter(|special| special.is_placed)
    }

    /// How many of them have a place.
    pub(super) fn placed(&self) -> usize {
        self.0.values().filter(|special| special.is_placed).count()
    }
}

impl Shard {
    /// Whether a key is not in a slot, or must leave it when it is charged.
    #[inline]
    pub(super) fn is_special(&self, key: Key) -> bool {
        key.factor.is_some()
            || (!self.rest.specials.0.is_empty()
                && self.rest.specials.0.contains_key(&key.fingerprint))
    }

    /// Whether it has a state here.
    #[inline]
    pub(super) fn knows_special(&self, fingerprint: u64) -> bool {
        !self.rest.specials.0.is_empty() && self.rest.specials.with_state(fingerprint).is_some()
    }

    /// The override of a key, unless it has expired.
    pub(crate) fn kept(&self, fingerprint: u64, now: Timestamp) -> Option<&Arc<Kept>> {
        let kept = self.rest.specials.get(fingerprint)?.kept.as_ref();
        kept.filter(|kept| now < kept.expires_at)
    }

    /// What is left to decide about a key.
    #[inline]
    pub(crate) fn standing(&self, key: Key, now: Timestamp) -> Standing {
        if self.rest.specials.0.is_empty() {
            return Standing::Limited;
        }
        match self.kept(key.fingerprint, now).map(|kept| &kept.rule) {
            Some(Override::Block) => Standing::Blocked,
            Some(Override::Exempt) => Standing::Exempt,
            _ => Standing::Limited,
        }
    }

    /// The limits that decide about a key.
    fn asked(&self, key: Key, now: Timestamp) -> By {
        let family = &self.rest.family;
        let asked = By::Member(key.under, key.factor);
        let Some(kept) = self.kept(key.fingerprint, now) else { return asked };
        match (&kept.rule, &kept.own) {
            (Override::Limits(_), Some(own)) => By::Own(Arc::clone(own)),
            (Override::Factor(factor), _) => {
                // Both together may have too many digits, or be too much for the limits.
                let both = key.factor.map_or(Ok(*factor), |of_call| factor.times(of_call));
                let both = both.ok().filter(|both| family.scales(key.under, *both));
                By::Member(key.under, Some(both.unwrap_or(*factor)))
            }
            (Override::Tier(tier), _) => By::Member(family.tier(tier), key.factor),
            _ => asked,
        }
    }

    /// The policy that decides about a key.
    pub(crate) fn policy_for(&self, key: Key, now: Timestamp) -> PolicyRef<'_> {
        if self.is_special(key) {
            PolicyRef::Special(self.rest.family.by(&self.asked(key, now)))
        } else {
            PolicyRef::Usual(self.policy(key.under))
        }
    }

    /// The limits that decide about a key, where they are not those of the member that it is asked under.
    pub(crate) fn applied(&self, key: Key, now: Timestamp) -> Option<Applied> {
        if !self.is_special(key) {
            return None;
        }
        let is_override = self.kept(key.fingerprint, now).is_some();
        let applies = is_override || key.factor.is_some();
        applies.then(|| Applied::new(self.policy_for(key, now).to_arc(), is_override))
    }

    /// The answer where the limits need not decide.
    pub(crate) fn answer_standing(
        &self,
        standing: Standing,
        key: Key,
        now: Timestamp,
        cost: &Cost,
    ) -> Answer {
        let policy = self.policy_for(key, now);
        let answer = match standing {
            Standing::Blocked => Answer::blocked(&policy, cost),
            Standing::Exempt | Standing::Limited => Answer::exempt(&policy, cost),
        };
        answer.with_applied(self.applied(key, now))
    }

    /// Where the state of a key is, and the limits by which it was written.
    fn written_by(&self, fingerprint: u64) -> (By, &[u64]) {
        let Rest { family, overflow, specials, .. } = &*self.rest;
        if let Some(special) = specials.with_state(fingerprint) {
            return (special.by.clone(), &special.words);
        }
        let words = match self.find(fingerprint) {
            Some(at) => &self.buckets.words()[self.layout.key(at)],
            None if overflow.is_empty() => &FRESH[..self.layout.state()],
            None => overflow,
        };
        let (variant, _, words) = family.written(words);
        (By::Member(variant, None), words)
    }

    pub(super) fn read_special<T>(
        &self,
        key: Key,
        now: Timestamp,
        read: impl FnOnce(&Policy, View<'_>) -> T,
    ) -> T {
        let Rest { family, logs, .. } = &*self.rest;
        let asked = self.asked(key, now);
        let (by, words) = self.written_by(key.fingerprint);
        let (policy, view) = (family.by(&asked), View::new(words, logs));
        if by == asked {
            return read(&policy, view);
        }
        let (mut seen_words, mut seen_logs) = ([0; MOST_WORDS], Logs::new());
        let mut seen = State::new(&mut seen_words[..policy.words()], &mut seen_logs);
        // Nothing is written, so nothing is lost: exhausted is as far as it goes.
        family.carry((&family.by(&by), view), (&policy, &mut seen), now, false);
        read(&policy, seen.view())
    }

    /// Whether other limits than those that are asked have written its state.
    pub(super) fn is_special_of_another(&self, key: Key, now: Timestamp) -> bool {
        self.written_by(key.fingerprint).0 != self.asked(key, now)
    }

    /// Writes the state of a key that has a place; otherwise gives back what was to write it.
    pub(super) fn write_special<T, W>(
        &mut self,
        key: Key,
        now: Timestamp,
        owes: bool,
        write: W,
    ) -> Result<T, W>
    where
        W: FnOnce(&Policy, &mut State<'_>) -> T,
    {
        let fingerprint = key.fingerprint;
        if !self.knows_special(fingerprint) {
            match self.find(fingerprint) {
                Some(at) => self.move_out(fingerprint, at),
                None => return Err(write),
            }
        }
        let asked = self.asked(key, now);
        let Rest { family, logs, specials, frees_at, gives_way_at, .. } = &mut *self.rest;
        let Some(special) = specials.0.get_mut(&fingerprint) else { return Err(write) };
        // Without limits nothing is counted: what was held before is settled under those that it was held by.
        let asked = if family.by(&asked).words() == 0 { special.by.clone() } else { asked };
        let policy = family.by(&asked);
        special.enter(family, asked, logs, now, owes);
        let mut state = State::new(&mut special.words, logs);
        let written = write(&policy, &mut state);
        *frees_at = (*frees_at).min(now.after(policy.fresh_in(state.view(), now)));
        *gives_way_at = (*gives_way_at).min(now.after(policy.half_fresh_in(state.view(), now)));
        if !self.rest.count_logs(false) {
            self.coarsen_special(fingerprint);
        }
        Ok(written)
    }

    #[cold]
    fn coarsen_special(&mut self, fingerprint: u64) {
        let Rest { family, logs, specials, places, .. } = &mut *self.rest;
        if let Some(special) = specials.0.get_mut(&fingerprint) {
            family.by(&special.by).coarsen(&mut State::new(&mut special.words, logs));
            places.count_coarsened();
        }
        self.rest.count_logs(true);
    }

    /// Adds a new key for which a place was taken. It inherits the usage of the overflow entry.
    pub(super) fn insert_special(&mut self, fingerprint: u64, now: Timestamp) {
        self.clear_fresh_overflow(now);
        let Rest { family, logs, overflow, specials, .. } = &mut *self.rest;
        let special = specials.0.entry(fingerprint).or_insert_with(|| Box::new(Special::new(None)));
        (special.is_placed, special.by) = (true, By::Member(Variant::BASE, None));
        special.words = vec![0; family.base().words()];
        if !overflow.is_empty() {
            let (variant, policy, from) = family.written(overflow);
            special.by = By::Member(variant, None);
            special.words = vec![0; policy.words()];
            policy.copy(from, &mut State::new(&mut special.words, logs));
        }
    }

    /// Moves a key from its slot to here, with its state and its place.
    fn move_out(&mut self, fingerprint: u64, at: usize) {
        let Rest { family, specials, .. } = &mut *self.rest;
        let (variant, _, words) = family.written(&self.buckets.words()[self.layout.key(at)]);
        let special = specials.0.entry(fingerprint).or_insert_with(|| Box::new(Special::new(None)));
        // The logs stay where they are.
        (special.by, special.words) = (By::Member(variant, None), words.to_vec());
        special.is_placed = true;
        self.remove_slot(fingerprint);
    }

    /// Fills the state of a key that a snapshot remembers.
    pub(super) fn put_back_special(
        &mut self,
        fingerprint: u64,
        by: Arc<Policy>,
        saved: &Saved,
        now: Timestamp,
    ) {
        if let (false, Some(at)) = (self.knows_special(fingerprint), self.find(fingerprint)) {
            self.move_out(fingerprint, at);
        }
        let Rest { family, logs, specials, frees_at, gives_way_at, .. } = &mut *self.rest;
        let special = specials.0.entry(fingerprint).or_insert_with(|| Box::new(Special::new(None)));
        if special.is_placed {
            family.by(&special.by).clear(&mut State::new(&mut special.words, logs));
        }
        special.words = vec![0; by.words()];
        let mut state = State::new(&mut special.words, logs);
        by.adopt(View::new(&saved.words, &saved.logs), &mut state);
        let fresh_at = now.after(by.fresh_in(state.view(), now));
        (*frees_at, *gives_way_at) = ((*frees_at).min(fresh_at), now);
        (special.is_placed, special.by) = (true, By::Own(by));
        self.rest.count_logs(true);
    }

    /// Gives a key an override, or another one; the one it had.
    pub(crate) fn set_kept(&mut self, fingerprint: u64, kept: Kept) -> Option<Arc<Kept>> {
        if let (false, Some(at)) = (self.knows_special(fingerprint), self.find(fingerprint)) {
            self.move_out(fingerprint, at);
        }
        self.rest.frees_at = self.rest.frees_at.min(kept.expires_at);
        let specials = &mut self.rest.specials.0;
        let special = specials.entry(fingerprint).or_insert_with(|| Box::new(Special::new(None)));
        special.kept.replace(Arc::new(kept))
    }

    /// Takes the override of a key away; the one it had.
    pub(crate) fn clear_kept(&mut self, fingerprint: u64) -> Option<Arc<Kept>> {
        let specials = &mut self.rest.specials.0;
        let special = specials.get_mut(&fingerprint)?;
        let kept = special.kept.take();
        if !special.is_placed {
            specials.remove(&fingerprint);
        }
        kept
    }

    /// Every override, with the fingerprint of its key.
    pub(crate) fn all_kept(&self) -> impl Iterator<Item = (u64, &Arc<Kept>)> {
        let all = self.rest.specials.0.iter();
        all.filter_map(|(fingerprint, special)| Some((*fingerprint, special.kept.as_ref()?)))
    }

    pub(super) fn refund_special(&mut self, fingerprint: u64, now: Timestamp, cost: &Cost) -> bool {
        let Rest { family, logs, specials, .. } = &mut *self.rest;
        let special = specials.0.get_mut(&fingerprint);
        let Some(special) = special.filter(|special| special.is_placed) else {
            return false;
        };
        family.by(&special.by).refund(&mut State::new(&mut special.words, logs), now, cost);
        true
    }

    pub(super) fn reset_special(&mut self, fingerprint: u64) -> bool {
        let Rest { family, logs, specials, .. } = &mut *self.rest;
        let special = specials.0.get_mut(&fingerprint);
        let Some(special) = special.filter(|special| special.is_placed) else {
            return false;
        };
        family.by(&special.by).clear(&mut State::new(&mut special.words, logs));
        true
    }

    /// Drops states that are fresh, and overrides that have expired. Returns how many places are free by that.
    pub(super) fn drop_fresh_specials(&mut self, now: Timestamp) -> usize {
        let Rest { family, logs, specials, frees_at, places, .. } = &mut *self.rest;
        let mut dropped = 0;
        for special in specials.0.values_mut() {
            if special.kept.take_if(|kept| kept.expires_at <= now).is_some() {
                places.drop_override();
            }
            if let Some(kept) = &special.kept {
                *frees_at = (*frees_at).min(kept.expires_at);
            }
            if !special.is_placed {
                continue;
            }
            let policy = family.by(&special.by);
            let mut state = State::new(&mut special.words, logs);
            let fresh_in = policy.fresh_in(state.view(), now);
            if fresh_in.is_zero() {
                policy.clear(&mut state);
                special.drop_state();
                dropped += 1;
            } else {
                *frees_at = (*frees_at).min(now.after(fresh_in));
            }
        }
        specials.0.retain(|_, special| special.matters());
        dropped
    }

    /// Drops states of which at most half is used, as many as asked for at most. Returns how many.
    pub(super) fn evict_specials(&mut self, most: usize, now: Timestamp) -> usize {
        let Rest { family, logs, specials, gives_way_at, .. } = &mut *self.rest;
        let mut evicted = 0;
        for special in specials.0.values_mut().filter(|special| special.is_placed) {
            let policy = family.by(&special.by);
            let mut state = State::new(&mut special.words, logs);
            let half_fresh_in = policy.half_fresh_in(state.view(), now);
            if half_fresh_in.is_zero() && evicted < most {
                policy.clear(&mut state);
                special.drop_state();
                evicted += 1;
            } else {
                *gives_way_at = (*gives_way_at).min(now.after(half_fresh_in));
            }
        }
        specials.0.retain(|_, special| special.matters());
        evicted
    }

    /// Drops all states, and keeps all overrides. Returns how many places are free by that.
    pub(super) fn clear_specials(&mut self) -> usize {
        let placed = self.rest.specials.placed();
        let specials = &mut self.rest.specials.0;
        specials.values_mut().for_each(|special| special.drop_state());
        specials.retain(|_, special| special.kept.is_some());
        placed
    }

    /// Moves the states to another family, and to other logs.
    pub(super) fn move_specials(&mut self, family: &Arc<Family>, to: &mut Logs, now: Timestamp) {
        let Rest { family: before, logs, specials, .. } = &mut *self.rest;
        for special in specials.0.values_mut() {
            let from = before.by(&special.by);
            let mut own_before = None;
            if let Some(kept) = &special.kept
                && let Ok(Some(own)) = kept.rule.policy(family.base())
            {
                own_before.clone_from(&kept.own);
                special.kept =
                    Some(Arc::new(Kept { own: Some(Arc::new(own)), ..Kept::clone(kept) }));
            }
            let own = special.kept.as_ref().and_then(|kept| kept.own.clone());
            if let (By::Own(by), Some(before), Some(own)) = (&special.by, &own_before, own)
                && Arc::ptr_eq(by, before)
            {
                special.by = By::Own(own);
            }
            if !special.is_placed {
                continue;
            }
            if let By::Member(variant, factor) = special.by {
                special.by = By::Member(family.find(variant).0, factor);
            }
            let policy = family.by(&special.by);
            let mut words = vec![0; policy.words()];
            let mut state = State::new(&mut words, to);
            family.carry(
                (&from, View::new(&special.words, logs)),
                (&policy, &mut state),
                now,
                false,
            );
            special.words = words;
        }
    }

    /// Takes a key of another shard of the same family.
    pub(super) fn take_special(
        &mut self,
        fingerprint: u64,
        mut special: Box<Special>,
        from: &Logs,
    ) {
        let Rest { family, logs, specials, .. } = &mut *self.rest;
        if special.is_placed {
            let policy = family.by(&special.by);
            let mut words = vec![0; policy.words()];
            let mut state = State::new(&mut words, logs);
            policy.adopt(View::new(&special.words, from), &mut state);
            special.words = words;
        }
        specials.0.insert(fingerprint, special);
    }
}
