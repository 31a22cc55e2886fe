//! So many at once: each holds its share until it gives it back, or until its lease is over.
//!
//! State is one word, the handle of a log of (end of lease, size), soonest end first. An entry counts while
//! `now < end`. Only a reservation can hold something: a check would have nothing to give back, so it is
//! refused for ever, and a peek tells what is free. A debit, a refund and what was used in the end mean
//! nothing here; settling a reservation takes its entry out.
//!
//! Bound: an entry is made only where it and all that still count are at most `limit` together, and counts
//! until it is settled or its lease is over. So at no instant do more than `limit` units belong to holders
//! that keep to their leases.

use core::time::Duration;

use super::{Meter, NEVER, period, units};
use crate::store::{State, View};
use crate::{LimitError, MAX_LOG};

/// At most `limit` held at the same time, each for `lease` at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    limit: u64,
    lease: u64,
}

impl Concurrency {
    /// At most `limit` (up to 65 536) held at the same time. A unit that is not settled within
    /// `lease` is free again.
    pub fn new(limit: u64, lease: Duration) -> Result<Self, LimitError> {
        if limit > MAX_LOG {
            return Err(LimitError::ManyHolders);
        }
        Ok(Self { limit: units("limit", limit)?, lease: period("lease", lease)? })
    }

    /// How many may be held at the same time.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// For how long at most.
    #[must_use]
    pub fn lease(&self) -> Duration {
        Duration::from_nanos(self.lease)
    }

    /// Until when something counts that is taken now and would be held until then.
    pub(crate) fn ends(&self, now: u64, until: u64) -> u64 {
        until.min(now + self.lease)
    }

    pub(crate) fn take(&self, state: State<'_>, now: u64, units: u64, ends: u64) {
        let log = state.logs.open(&mut state.words[0]);
        log.prune(now, 0);
        log.insert(ends, units);
    }

    pub(crate) fn free(&self, state: State<'_>, now: u64, units: u64, ends: u64) {
        if state.words[0] == 0 {
            return;
        }
        let log = state.logs.open(&mut state.words[0]);
        log.prune(now, 0);
        log.take_at(ends, units);
        if log.entries.is_empty() {
            state.logs.close(&mut state.words[0]);
        }
    }
}

impl Meter for Concurrency {
    fn words(&self) -> usize {
        1
    }

    fn max_cost(&self) -> Option<u64> {
        Some(self.limit)
    }

    fn used(&self, view: View<'_>, now: u64) -> u64 {
        view.logs.get(view.words[0]).live(now, 0).1
    }

    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        if units > self.limit {
            return NEVER;
        }
        view.logs.get(view.words[0]).wait(now, 0, units, self.limit)
    }

    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        let last = view.logs.get(view.words[0]).entries.back();
        last.map_or(0, |(ends, _)| ends.saturating_sub(now))
    }

    /// A check takes nothing: it could not give it back.
    fn charge(&self, _state: State<'_>, _now: u64, _units: u64) {}

    fn debit(&self, _state: State<'_>, _now: u64, _units: u64) {}

    fn refund(&self, _state: State<'_>, _now: u64, _units: u64) {}

    fn redate(&self, state: State<'_>, now: u64) {
        if state.words[0] != 0 {
            state.logs.open(&mut state.words[0]).redate(now + self.lease);
        }
    }
}
