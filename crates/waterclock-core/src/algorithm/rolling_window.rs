//! A log of what was admitted: the only algorithm that is exact per window.
//!
//! State is one word, the handle of a log of (stamp, size). An entry counts while
//! `now < stamp + P`. The exact log stamps an admission with its instant. With `buckets = b` it is
//! stamped with the end of its cell on the grid of width P/b, so a log never has more than b + 1
//! entries, and entries expire late, never early.
//!
//! Bound: take any half-open window of length D ≤ P and the last admission in it, at time a. When
//! it was admitted, everything admitted in (a − P, a] still counted (stamps are never earlier than
//! the admission), which covers the whole window, and together it was at most `limit`.

use core::time::Duration;

use super::{Meter, NEVER, in_steps, measured, period, units};
use crate::arith::{div_ceil, div_floor, mul};
use crate::room::Room;
use crate::store::{State, View};
use crate::{LimitError, MAX_LOG, MAX_UNITS, Timestamp};

/// Debits may come one by one and without end: an exact log keeps this many entries for them where its
/// limit does not ask for more.
const DEBIT_ENTRIES: u64 = 1_024;

/// Never more than `limit` in any window of `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollingWindow {
    limit: u64,
    pub(crate) per: u64,
    buckets: Option<u64>,
}

impl RollingWindow {
    /// Never more than `limit` (at most 65 536) in any window of `per`, to the nanosecond.
    pub fn new(limit: u64, per: Duration) -> Result<Self, LimitError> {
        if limit > MAX_LOG {
            return Err(LimitError::LongLog);
        }
        Ok(Self { limit: units("limit", limit)?, per: period("per", per)?, buckets: None })
    }

    /// Never more than `limit` in any window of `per`, with times sampled on a grid of `buckets`
    /// cells per window to bound memory.
    pub fn bucketed(limit: u64, per: Duration, buckets: u64) -> Result<Self, LimitError> {
        let buckets = units("buckets", buckets)?;
        if buckets > MAX_LOG {
            return Err(LimitError::ManyBuckets);
        }
        let (limit, per) = (units("limit", limit)?, period("per", per)?);
        if buckets > per {
            return Err(LimitError::ShortBucket);
        }
        Ok(Self { limit, per, buckets: Some(buckets) })
    }

    /// How many cells the grid has on which times are sampled; `None` for the exact log.
    #[must_use]
    pub fn buckets(&self) -> Option<u64> {
        self.buckets
    }

    /// The instant an admission at `now` is logged with.
    #[must_use]
    pub fn stamp(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(self.stamp_ns(now.as_nanos()))
    }

    fn stamp_ns(&self, now: u64) -> u64 {
        match self.buckets {
            None => now,
            Some(buckets) => {
                let into = now % self.per;
                let cell = div_floor(mul(into, buckets), self.per);
                now - into + div_ceil(mul(cell + 1, self.per), buckets)
            }
        }
    }
}

measured!(RollingWindow);

impl Meter for RollingWindow {
    fn words(&self) -> usize {
        1
    }

    fn max_cost(&self) -> Option<u64> {
        Some(self.limit)
    }

    fn used(&self, view: View<'_>, now: u64) -> u64 {
        view.logs.get(view.words[0]).live(now, self.per).1
    }

    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        if units > self.limit {
            return NEVER;
        }
        view.logs.get(view.words[0]).wait(now, self.per, units, self.limit)
    }

    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        let newest = view.logs.get(view.words[0]).entries.back();
        newest.map_or(0, |(stamp, _)| (stamp + self.per).saturating_sub(now))
    }

    fn charge(&self, state: State<'_>, now: u64, units: u64) {
        let log = state.logs.open(&mut state.words[0]);
        log.prune(now, self.per);
        // Only the newest units can still matter: refused attempts in count-refusals mode take bounded memory.
        let most = log.total.max(2 * self.limit);
        log.push(self.stamp_ns(now), units.min(2 * self.limit));
        log.keep_newest(most);
    }

    /// The log is looked up once, and only its ends are read.
    #[inline(always)]
    fn spend(&self, state: State<'_>, now: u64, cost: u64) -> (u64, Room) {
        let Self { limit, per, .. } = *self;
        if cost > limit {
            return in_steps(self, state, now, cost);
        }
        // A log is opened only for what is admitted: an empty one admits it.
        let log = state.logs.open(&mut state.words[0]);
        let (first, used) = log.live(now, per);
        if used + cost > limit {
            return in_steps(self, state, now, cost);
        }
        log.drop_oldest(first, used);
        log.push(self.stamp_ns(now), cost);
        let until = |entry: Option<&(u64, u64)>| entry.map_or(0, |(stamp, _)| stamp + per - now);
        let (next_unit, reset) = (until(log.entries.front()), until(log.entries.back()));
        (0, Room::Counted { remaining: limit - log.total, next_unit, reset })
    }

    /// However often: only what the newest `limit` units leave matters to a decision, so older entries
    /// become one, which counts for as long as the later of them.
    fn debit(&self, state: State<'_>, now: u64, units: u64) {
        let log = state.logs.open(&mut state.words[0]);
        log.prune(now, self.per);
        log.push(self.stamp_ns(now), units.min(MAX_UNITS.saturating_sub(log.total)));
        if self.buckets.is_none() {
            log.join_oldest(DEBIT_ENTRIES.max(2 * self.limit));
        }
    }

    fn refund(&self, state: State<'_>, now: u64, units: u64) {
        if state.words[0] == 0 {
            return;
        }
        let log = state.logs.open(&mut state.words[0]);
        log.prune(now, self.per);
        log.take_newest(units);
        if log.entries.is_empty() {
            state.logs.close(&mut state.words[0]);
        }
    }

    /// Its own entry is edited, and no other.
    fn give_back(&self, state: State<'_>, charged_at: u64, now: u64, units: u64) {
        if state.words[0] == 0 {
            return;
        }
        let log = state.logs.open(&mut state.words[0]);
        log.prune(now, self.per);
        log.take_at(self.stamp_ns(charged_at), units);
        if log.entries.is_empty() {
            state.logs.close(&mut state.words[0]);
        }
    }

    fn redate(&self, state: State<'_>, now: u64) {
        if state.words[0] != 0 {
            state.logs.open(&mut state.words[0]).redate(self.stamp_ns(now));
        }
    }
}
