//! gcra as a debt that drains; the core uses an arrival time instead.

use super::meter::{Meter, positive};
use super::search::{CENTURY, FORTY_YEARS, MOST_UNITS, Time, Units};

/// A debt that drains `limit` units per period, down to 0.
#[derive(Clone, Debug)]
pub(super) struct Gcra {
    limit: Units,
    per: Time,
    capacity: Units,
    overdraft: bool,
    /// In parts of a unit, `per` parts to one: a nanosecond then drains exactly `limit` parts.
    debt: u128,
    /// When the debt was that much.
    since: Time,
}

impl Gcra {
    pub(super) fn new(limit: u64, per_ns: u64, capacity: u64, overdraft: bool) -> Self {
        let (limit, per, capacity) = (positive(limit), positive(per_ns), positive(capacity));
        Self { limit, per, capacity, overdraft, debt: 0, since: 0 }
    }

    /// How many more whole units may be owed. With overdraft, what drains within a century; without it, within forty
    /// years or the capacity's own time; and never more than `MOST_UNITS`.
    fn bearable(&self, at: Time) -> Units {
        let debt = self.debt(at);
        let deepest = if self.overdraft {
            CENTURY * self.limit
        } else {
            (FORTY_YEARS * self.limit).max(self.capacity * self.per)
        };
        let representable = MOST_UNITS.saturating_sub(debt.div_ceil(self.per));
        (deepest.saturating_sub(debt) / self.per).min(representable)
    }

    fn debt(&self, at: Time) -> u128 {
        self.debt.saturating_sub((at - self.since) * self.limit)
    }
}

impl Meter for Gcra {
    fn limit(&self) -> Option<Units> {
        Some(self.capacity)
    }

    fn fits(&self, at: Time, cost: Units) -> bool {
        self.debt(at) + cost * self.per <= self.capacity * self.per
    }

    fn admits(&self, at: Time, cost: Units) -> bool {
        self.fits(at, if self.overdraft { 1 } else { cost })
    }

    fn ever_admits(&self, cost: Units) -> bool {
        self.overdraft || cost <= self.capacity
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.debt(at) == 0
    }

    fn charge(&mut self, at: Time, cost: Units) {
        let cost = if self.overdraft { cost.min(self.bearable(at)) } else { cost };
        (self.debt, self.since) = (self.debt(at) + cost * self.per, at);
    }

    fn debit(&mut self, at: Time, units: Units) {
        let units = units.min(self.bearable(at));
        (self.debt, self.since) = (self.debt(at) + units * self.per, at);
    }

    fn refund(&mut self, at: Time, units: Units) {
        (self.debt, self.since) = (self.debt(at).saturating_sub(units * self.per), at);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, SECOND, checks, policy};
    use super::super::{Algorithm, Model, Verb};

    fn three_per_second(overdraft: bool) -> Model {
        policy(Algorithm::Gcra { limit: 3, per_ns: SECOND, capacity: 3, overdraft })
    }

    #[test]
    fn carries_the_remainder_of_the_ratio() {
        let mut model = three_per_second(false);
        assert_eq!(checks(&mut model, (0..=30_000).map(|ms| ms * MS)), 93);
    }

    #[test]
    fn rounds_a_third_of_a_second_up() {
        let mut model = three_per_second(false);
        let full = model.apply(0, Verb::Check, 3);
        assert_eq!((full.remaining, full.reset_after_ns), (Some(0), SECOND));
        assert_eq!(full.next_unit_ns, Some(333_333_334));
        let refused = model.apply(0, Verb::Check, 2);
        assert_eq!((refused.granted, refused.retry_after_ns), (0, Some(666_666_667)));
        assert!(!model.apply(666_666_666, Verb::Check, 2).allowed);
        assert!(model.apply(666_666_667, Verb::Check, 2).allowed);
    }

    #[test]
    fn more_than_the_capacity_never_passes() {
        let refused = three_per_second(false).apply(0, Verb::Check, 4);
        assert_eq!((refused.retry_after_ns, refused.remaining), (None, Some(3)));
    }

    #[test]
    fn overdraft_admits_any_cost_when_one_unit_would_pass() {
        let mut model = three_per_second(true);
        let debt = model.apply(0, Verb::Check, 30);
        assert_eq!((debt.allowed, debt.remaining), (true, Some(0)));
        assert_eq!(debt.reset_after_ns, 10 * SECOND);
        let refused = model.apply(0, Verb::Check, u64::MAX);
        assert_eq!(refused.retry_after_ns, Some(9 * SECOND + 333_333_334));
        assert!(model.apply(9 * SECOND + 333_333_334, Verb::Check, u64::MAX).allowed);
    }

    #[test]
    fn a_refund_reduces_debt_down_to_fresh() {
        let mut model = three_per_second(false);
        model.apply(0, Verb::Check, 3);
        assert_eq!(model.apply(0, Verb::Refund, 2).remaining, Some(2));
        assert_eq!(model.apply(0, Verb::Refund, u64::MAX).reset_after_ns, 0);
    }
}
