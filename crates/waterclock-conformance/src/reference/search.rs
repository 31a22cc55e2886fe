//! Every reported number, found by searching over yes-or-no questions instead of by formula. This keeps the model
//! independent of the core.

use super::meter::Meter;
use super::spec::LimitAnswer;

/// An instant or a duration in nanoseconds, wide enough that no sum or product here overflows.
pub(super) type Time = u128;
/// An amount of units, as wide for the same reason.
pub(super) type Units = u128;

/// The longest wait an answer can express.
pub(super) const LONGEST: Time = u64::MAX as Time;

/// The deepest debt, as the time it takes to pay off.
pub(super) const CENTURY: Time = 36_525 * 86_400 * 1_000_000_000;

/// The deepest debt without overdraft, unless the capacity itself takes longer.
pub(super) const FORTY_YEARS: Time = CENTURY / 100 * 40;

/// The largest amount that every store represents exactly.
pub(super) const MOST_UNITS: Units = (1 << 53) - 1;

/// The first step of a search. Its size affects only speed.
const FIRST_STEP: Time = 1 << 16;

/// The first instant from `from` on at which `holds` is true, given that it stays true. None if that is further
/// away than [`LONGEST`].
pub(super) fn earliest(from: Time, holds: impl Fn(Time) -> bool) -> Option<Time> {
    if holds(from) {
        return Some(from);
    }
    let (mut no, mut step) = (from, FIRST_STEP);
    while !holds(from + step) {
        if step > LONGEST {
            return None;
        }
        no = from + step;
        step *= 2;
    }
    let mut yes = from + step;
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    Some(yes)
}

/// The largest amount up to `most` that `fits`, given that 0 fits, and everything below an amount that fits.
pub(super) fn largest(most: Units, fits: impl Fn(Units) -> bool) -> Units {
    let (mut yes, mut no) = (0, most + 1);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if fits(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

/// A wide number in an answer: at most `u64::MAX`.
pub(super) fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// How many openings a wait follows before it gives up and reports the longest wait. Only limits that close again by
/// themselves (quota, even-slots), with periods that almost never align, get there.
const STEPS: usize = 10_000;

/// Meters that admit together, at one instant: one limit with its gap, or all live limits of a policy.
pub(super) struct MeterSet<'a> {
    pub(super) meters: Vec<&'a dyn Meter>,
    pub(super) now: Time,
}

impl MeterSet<'_> {
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

    pub(super) fn retry(&self, cost: Units) -> Option<u64> {
        let possible = self.meters.iter().all(|meter| meter.ever_admits(cost));
        possible.then(|| self.wait(|meter, at| meter.admits(at, cost)))
    }

    fn reset(&self) -> u64 {
        let all_fresh = |at| self.meters.iter().all(|meter| meter.is_fresh(at));
        self.since_now(earliest(self.now, all_fresh))
    }

    /// The wait until all meters are open at once. Each meter names its next opening; the latest of those is a lower
    /// bound, and the answer if all are open then.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_is_exact_near_and_far() {
        for d in [0, 1, 2, FIRST_STEP, FIRST_STEP + 1, 1 << 40, LONGEST] {
            assert_eq!(earliest(7, |t| t >= 7 + d), Some(7 + d));
        }
        assert_eq!(earliest(7, |_| false), None);
    }

    #[test]
    fn largest_is_exact_at_both_ends() {
        for most in [0, 1, 2, 9, 1 << 53] {
            assert_eq!(largest(most, |_| true), most);
            assert_eq!(largest(most, |n| n == 0), 0);
            assert_eq!(largest(most, |n| n <= 5), most.min(5));
        }
    }
}
