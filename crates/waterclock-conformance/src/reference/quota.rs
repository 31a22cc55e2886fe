//! quota: what is not used in its part of the window is lost.

use super::meter::{Meter, positive};
use super::search::{MOST_UNITS, Time, Units};

/// What was spent in the last window that was used.
#[derive(Clone, Debug)]
pub(super) struct Quota {
    limit: Units,
    per: Time,
    start: Time,
    spent: Units,
}

impl Quota {
    pub(super) fn new(limit: u64, per_ns: u64) -> Self {
        Self { limit: positive(limit), per: positive(per_ns), start: 0, spent: 0 }
    }

    fn window(&self, at: Time) -> Time {
        at - at % self.per
    }

    /// What an idle key has lost by now.
    fn lost(&self, at: Time) -> Units {
        self.limit * (at - self.window(at)) / self.per
    }

    fn spent(&self, at: Time) -> Units {
        let spent = if self.window(at) == self.start { self.spent } else { 0 };
        spent.max(self.lost(at))
    }
}

impl Meter for Quota {
    fn limit(&self) -> Option<Units> {
        Some(self.limit)
    }

    fn fits(&self, at: Time, cost: Units) -> bool {
        self.spent(at) + cost <= self.limit
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.spent(at) == self.lost(at)
    }

    fn reopens(&self, at: Time) -> Option<Time> {
        Some(self.window(at) + self.per)
    }

    fn charge(&mut self, at: Time, cost: Units) {
        (self.spent, self.start) = (self.spent(at) + cost, self.window(at));
    }

    fn debit(&mut self, at: Time, units: Units) {
        let before = self.spent(at);
        self.charge(at, units);
        self.spent = self.spent.min(before.max(MOST_UNITS));
    }

    fn give_back(&mut self, at: Time, charged_at: Time, units: Units) {
        if self.window(charged_at) == self.window(at) {
            self.refund(at, units);
        }
    }

    fn refund(&mut self, at: Time, units: Units) {
        let spent = self.spent(at).saturating_sub(units).max(self.lost(at));
        (self.spent, self.start) = (spent, self.window(at));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, SECOND, checks, policy};
    use super::super::{Algorithm, Model, Verb};

    fn five_per_second() -> Model {
        policy(Algorithm::Quota { limit: 5, per_ns: SECOND })
    }

    #[test]
    fn an_idle_key_loses_its_share() {
        let mut model = five_per_second();
        let full = model.apply(199 * MS, Verb::Peek, 1);
        assert_eq!((full.remaining, full.next_unit_ns), (Some(5), None));
        assert_eq!(model.apply(200 * MS, Verb::Peek, 1).remaining, Some(4));
        let late = model.apply(800 * MS, Verb::Peek, 2);
        assert_eq!((late.remaining, late.next_unit_ns), (Some(1), Some(200 * MS)));
        assert_eq!((late.retry_after_ns, late.reset_after_ns), (Some(200 * MS), 0));
    }

    #[test]
    fn a_steady_key_loses_nothing() {
        assert_eq!(checks(&mut five_per_second(), (0..50).map(|i| i * 200 * MS)), 50);
    }

    #[test]
    fn fresh_once_the_share_lost_has_caught_up() {
        let mut model = five_per_second();
        assert_eq!(model.apply(100 * MS, Verb::Check, 3).reset_after_ns, 500 * MS);
        assert_eq!(model.apply(100 * MS, Verb::Check, 2).reset_after_ns, 900 * MS);
    }

    #[test]
    fn a_refund_stops_at_what_is_lost_anyway() {
        let mut model = five_per_second();
        model.apply(0, Verb::Check, 4);
        let back = model.apply(450 * MS, Verb::Refund, 9);
        assert_eq!((back.remaining, back.reset_after_ns), (Some(3), 0));
    }
}
