//! Numbers found by asking, not by formula: that is what makes this model a second opinion.

/// An instant or a duration in nanoseconds, wide enough that no sum or product here overflows.
pub(super) type Time = u128;
/// An amount of units, for the same reason as wide.
pub(super) type Units = u128;

/// The longest wait an answer can express.
pub(super) const LONGEST: Time = u64::MAX as Time;

/// What is owed is owed for a hundred years at most.
pub(super) const CENTURY: Time = 36_525 * 86_400 * 1_000_000_000;

/// What is owed without overdraft is owed for as long as this, unless capacity itself takes longer.
pub(super) const FORTY_YEARS: Time = CENTURY / 100 * 40;

/// The largest amount that every store can tell from its neighbours.
pub(super) const MOST_UNITS: Units = (1 << 53) - 1;

/// The first guess at a wait. Any would do; a short one makes the bracket slow to grow.
const FIRST_STEP: Time = 1 << 16;

/// The smallest instant from `from` on at which `holds`, given that it stays true once it is.
/// None if that is further away than [`LONGEST`].
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

/// The largest amount up to `most` that `fits`, given that whatever is smaller than a fitting
/// amount fits too, and that nothing always does.
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

/// A wide number as an answer shows it.
pub(super) fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
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
