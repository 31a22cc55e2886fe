//! Meters that admit together: one limit with its gap, or all live limits of a policy.

use super::answer::LimitAnswer;
use super::meter::Meter;
use super::search::{LONGEST, Time, Units, earliest, largest, narrow};

/// How many closings and openings a wait follows before it is called the longest there is. Only
/// limits that close again with time (quota, even-slots), with periods that almost never align,
/// get there.
const STEPS: usize = 10_000;

/// A set of meters at one instant.
pub(super) struct Together<'a> {
    pub(super) meters: Vec<&'a dyn Meter>,
    pub(super) now: Time,
}

impl Together<'_> {
    pub(super) fn admit(&self, cost: Units) -> bool {
        cost == 0 || self.meters.iter().all(|meter| meter.admits(self.now, cost))
    }

    pub(super) fn remaining(&self) -> Option<Units> {
        let fits = |cost| self.meters.iter().all(|meter| meter.fits(self.now, cost));
        match self.limit() {
            Some(limit) => Some(largest(limit, |cost| cost == 0 || fits(cost))),
            None if fits(1) => None,
            None => Some(0),
        }
    }

    /// The numbers of an answer to `cost`, which was `allowed` or not before it was charged.
    pub(super) fn answer(&self, cost: Units, allowed: bool) -> LimitAnswer {
        let (limit, remaining) = (self.limit(), self.remaining());
        let room_for_more = remaining.filter(|_| remaining != limit);
        LimitAnswer {
            allowed,
            limit: limit.map(narrow),
            remaining: remaining.map(narrow),
            retry_after_ns: if allowed { Some(0) } else { self.retry(cost) },
            next_unit_ns: room_for_more
                .map(|units| self.wait(|meter, at| meter.fits(at, units + 1))),
            reset_after_ns: self.reset(),
        }
    }

    fn limit(&self) -> Option<Units> {
        self.meters.iter().filter_map(|meter| meter.limit()).min()
    }

    fn retry(&self, cost: Units) -> Option<u64> {
        let possible = self.meters.iter().all(|meter| meter.ever_admits(cost));
        possible.then(|| self.wait(|meter, at| meter.admits(at, cost)))
    }

    fn reset(&self) -> u64 {
        let all_fresh = |at| self.meters.iter().all(|meter| meter.is_fresh(at));
        self.since_now(earliest(self.now, all_fresh))
    }

    /// The wait until every meter opens at once. No meter opens before the instant it names, so
    /// the latest of those is a lower bound, and where it opens all of them, the answer.
    fn wait(&self, open: impl Fn(&dyn Meter, Time) -> bool) -> u64 {
        let opens = |meter: &dyn Meter, at| {
            if open(meter, at) {
                return Some(at);
            }
            meter.reopens(at).or_else(|| earliest(at, |at| open(meter, at)))
        };
        let mut at = self.now;
        for _ in 0..STEPS {
            let Some(next) = self
                .meters
                .iter()
                .try_fold(at, |latest, &meter| opens(meter, at).map(|next| latest.max(next)))
            else {
                break;
            };
            if next == at || next - self.now > LONGEST {
                return self.since_now(Some(next));
            }
            at = next;
        }
        self.since_now(None)
    }

    fn since_now(&self, at: Option<Time>) -> u64 {
        at.map_or(u64::MAX, |at| narrow(at - self.now))
    }
}
