//! Reading and writing what a shard remembers of one key.
//!
//! A key without a place shares the shard's overflow entry with all others that have none.

use waterclock_core::store::{Decide as _, Reserve as _, ReservedUnits, State, Verdict, View};
use waterclock_core::{Cost, Decision, Outcome, Policy, Timestamp};

use super::family::{Key, MOST_WORDS};
use super::shard::{Rest, Shard};
use super::special::Standing;
use crate::store::Answer;
use crate::sync::Arc;

/// The state of a key that was never charged: as many zeros as the largest policy has words.
pub(super) static FRESH: [u64; MOST_WORDS] = [0; MOST_WORDS];

impl Shard {
    /// Reads the state of a key as the variant sees it that it is checked under; the overflow entry, if the key
    /// has no place.
    pub(super) fn read<T>(
        &self,
        key: Key,
        now: Timestamp,
        read: impl FnOnce(&Policy, View<'_>) -> T,
    ) -> T {
        if self.is_special(key) {
            return self.read_special(key, now, read);
        }
        let Rest { family, logs, overflow, .. } = &*self.rest;
        let words = match self.find(key.fingerprint) {
            Some(at) => &self.buckets.words()[self.layout.key(at)],
            None if overflow.is_empty() => &FRESH[..self.layout.state()],
            None => overflow,
        };
        if !self.is_tagged() {
            return read(&self.policy, View::new(words, logs));
        }
        let (variant, by, words) = family.written(words);
        let view = View::new(words, logs);
        if variant == family.find(key.under).0 {
            return read(by, view);
        }
        family.seen(key.under, view, by, now, read)
    }

    pub(crate) fn judge(&self, key: Key, now: Timestamp, cost: &Cost) -> Verdict {
        self.read(key, now, |policy, view| policy.judge(view, now, cost))
    }

    pub(crate) fn answer(
        &self,
        key: Key,
        now: Timestamp,
        cost: &Cost,
        verdict: Verdict,
    ) -> Decision {
        self.read(key, now, |policy, view| policy.answer(view, now, cost, verdict))
    }

    pub(super) fn peek(&self, key: Key, now: Timestamp, cost: u64) -> Decision {
        let cost = Cost::from(cost);
        let standing = self.standing(key, now);
        if standing != Standing::Limited {
            return self.answer_standing(standing, key, now, &cost).decision;
        }
        let verdict = self.judge(key, now, &cost);
        self.answer(key, now, &cost, verdict)
    }

    /// The answer to a check where only reservations are admitted.
    pub(super) fn refuse_check(&self, key: Key, now: Timestamp, cost: &Cost) -> Decision {
        self.read(key, now, |policy, view| policy.refuse_check(view, now, cost))
    }

    /// The decision with each limit's own numbers.
    pub(crate) fn answer_in_full(
        &self,
        key: Key,
        now: Timestamp,
        cost: &Cost,
        verdict: Verdict,
    ) -> Answer {
        self.read(key, now, |policy, view| Answer::of(policy, view, now, cost, verdict))
            .with_applied(self.applied(key, now))
    }

    /// Charges the key, or the overflow entry if the key has no place.
    pub(super) fn record(&mut self, key: Key, now: Timestamp, cost: &Cost, verdict: Verdict) {
        self.write(key, now, false, |policy, state| policy.record(state, now, cost, verdict));
    }

    /// The same for units that were used already.
    pub(super) fn debit(&mut self, key: Key, now: Timestamp, cost: &Cost) {
        self.write(key, now, true, |policy, state| policy.debit(state, now, cost));
    }

    /// The same for the outcome of a request.
    pub(super) fn report(&mut self, key: Key, now: Timestamp, outcome: Outcome, times: &Cost) {
        self.write(key, now, true, |policy, state| policy.report(state, now, outcome, times));
        // A breaker that closes is fresh at once.
        self.rest.frees_soon(now);
    }

    /// The same for a reservation.
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
            let migrated = (!std::ptr::eq(policy, &**then)).then(|| held.migrated(then, policy));
            let held = migrated.as_ref().unwrap_or(held);
            if known {
                policy.settle(state, now, held, used);
            } else {
                policy.settle(state, now, &held.at_most(policy, used), used);
            }
        });
        // Something may be fresh now that was not.
        self.rest.frees_soon(now);
    }

    /// Frees the units of concurrency limits, and nothing else.
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
        self.rest.frees_soon(now);
    }

    /// Writes the state of a key as the variant that it is checked under; the overflow entry, if the key has no
    /// place.
    fn write<T>(
        &mut self,
        key: Key,
        now: Timestamp,
        owes: bool,
        write: impl FnOnce(&Policy, &mut State<'_>) -> T,
    ) -> T {
        if self.is_special(key) {
            return match self.write_special(key, now, owes, write) {
                Ok(written) => written,
                // A key without a place has no limits of its own.
                Err(write) => self.write_usual(key, now, owes, write),
            };
        }
        self.write_usual(key, now, owes, write)
    }

    fn write_usual<T>(
        &mut self,
        key: Key,
        now: Timestamp,
        owes: bool,
        write: impl FnOnce(&Policy, &mut State<'_>) -> T,
    ) -> T {
        let found = self.find(key.fingerprint);
        let Rest { family, logs, overflow, frees_at, gives_way_at, .. } = &mut *self.rest;
        let words = match found {
            Some(at) => &mut self.buckets.words_mut()[self.layout.key(at)],
            None => {
                if overflow.is_empty() {
                    *overflow = vec![0; self.layout.state()].into_boxed_slice();
                }
                &mut overflow[..]
            }
        };
        family.enter(key.under, words, logs, now, owes);
        let (policy, words) = family.writing(words);
        let mut state = State::new(words, logs);
        let written = write(policy, &mut state);
        if found.is_some() {
            *frees_at = (*frees_at).min(now.after(policy.fresh_in(state.view(), now)));
            *gives_way_at = (*gives_way_at).min(now.after(policy.half_fresh_in(state.view(), now)));
        }
        self.count_logs_of(found);
        written
    }

    pub(crate) fn refund(&mut self, key: Key, now: Timestamp, cost: &Cost) {
        // A key without a place gets nothing back: what it shares was paid for by others too.
        if self.is_special(key) && self.refund_special(key.fingerprint, now, cost) {
            self.rest.count_logs(true);
            self.rest.frees_soon(now);
        } else if let Some(at) = self.find(key.fingerprint) {
            let words = &mut self.buckets.words_mut()[self.layout.key(at)];
            let Rest { family, logs, .. } = &mut *self.rest;
            family.refund(key.under, words, logs, now, cost);
            self.count_logs_of(Some(at));
            self.rest.frees_soon(now);
        }
    }

    pub(crate) fn reset(&mut self, fingerprint: u64) {
        if !self.rest.specials.0.is_empty() && self.reset_special(fingerprint) {
            self.rest.count_logs(true);
            self.rest.frees_soon(Timestamp::ZERO);
        } else if let Some(at) = self.find(fingerprint) {
            let words = &mut self.buckets.words_mut()[self.layout.key(at)];
            let (policy, words) = self.rest.family.writing(words);
            policy.clear(&mut State::new(words, &mut self.rest.logs));
            self.rest.count_logs(true);
            self.rest.frees_soon(Timestamp::ZERO);
        }
    }
}
