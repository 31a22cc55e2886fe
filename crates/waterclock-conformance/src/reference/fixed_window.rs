//! fixed-window: a count that is reset when its window ends.

use super::meter::{self, Meter, positive};
use super::search::{MOST_UNITS, Time, Units};
use super::spec::Align;

/// The count, and the end of its window.
#[derive(Clone, Debug)]
pub(super) struct FixedWindow {
    limit: Units,
    per: Time,
    align: Align,
    count: Units,
    end: Time,
}

impl FixedWindow {
    pub(super) fn new(limit: u64, per_ns: u64, align: Align) -> Self {
        Self { limit: positive(limit), per: positive(per_ns), align, count: 0, end: 0 }
    }

    fn used(&self, at: Time) -> Units {
        if at < self.end { self.count } else { 0 }
    }

    /// The end of the window that a charge at `at` starts if no window is open.
    fn end_of_new(&self, at: Time) -> Time {
        match &self.align {
            Align::First => at + self.per,
            Align::Epoch => (at / self.per + 1) * self.per,
            Align::Calendar(edges) => {
                let mut edges = edges.iter().map(|&edge| Time::from(edge));
                edges.find(|&edge| edge > at).unwrap_or(Time::MAX)
            }
        }
    }

    fn add(&mut self, at: Time, cost: Units) {
        let used = self.used(at);
        if used == 0 {
            self.end = self.end_of_new(at);
        }
        self.count = used + cost;
    }
}

impl Meter for FixedWindow {
    fn limit(&self) -> Option<Units> {
        Some(self.limit)
    }

    fn fits(&self, at: Time, cost: Units) -> bool {
        self.used(at) + cost <= self.limit
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.used(at) == 0
    }

    fn charge(&mut self, at: Time, cost: Units) {
        self.add(at, cost);
    }

    fn debit(&mut self, at: Time, units: Units) {
        let most = self.used(at).max(MOST_UNITS);
        self.add(at, units);
        self.count = self.count.min(most);
    }

    /// Attempts stop counting at twice the limit; what was debited beyond it stays.
    fn record(&mut self, at: Time, cost: Units) {
        let most = self.used(at).max(2 * self.limit);
        self.add(at, cost);
        self.count = self.count.min(most);
    }

    fn give_back(&mut self, at: Time, charged_at: Time, units: Units) {
        let same_window = match self.align {
            Align::First => charged_at + self.per >= self.end,
            _ => self.end_of_new(charged_at) == self.end,
        };
        if same_window {
            self.refund(at, units);
        }
    }

    fn refund(&mut self, at: Time, units: Units) {
        self.count = self.used(at).saturating_sub(units);
    }

    fn counter(&self, at: Time) -> Option<i64> {
        meter::counter(self.limit, self.used(at))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{policy, uniform};
    use super::super::{Algorithm, Align, Verb};

    fn window(align: Align) -> Algorithm {
        Algorithm::FixedWindow { limit: 3, per_ns: 100, align }
    }

    #[test]
    fn the_first_admission_opens_the_window() {
        let mut model = policy(window(Align::First));
        model.apply(30, Verb::Check, 9);
        model.apply(40, Verb::Check, 0);
        assert_eq!(model.apply(50, Verb::Check, 3).reset_after_ns, 100);
        assert_eq!(model.apply(149, Verb::Check, 1).retry_after_ns, Some(1));
        assert!(model.apply(150, Verb::Check, 1).allowed);
    }

    #[test]
    fn a_full_refund_loses_the_anchor() {
        let mut model = policy(window(Align::First));
        model.apply(10, Verb::Check, 2);
        assert_eq!(model.apply(20, Verb::Refund, 1).reset_after_ns, 90);
        assert_eq!(model.apply(30, Verb::Refund, 1).reset_after_ns, 0);
        assert_eq!(model.apply(40, Verb::Check, 1).reset_after_ns, 100);
    }

    #[test]
    fn epoch_windows_end_at_multiples() {
        let mut model = policy(window(Align::Epoch));
        assert_eq!(model.apply(250, Verb::Check, 3).reset_after_ns, 50);
        assert!(model.apply(300, Verb::Check, 3).allowed);
    }

    #[test]
    fn calendar_windows_end_at_their_edges() {
        let mut model = policy(window(Align::Calendar(vec![100, 128])));
        assert_eq!(model.apply(99, Verb::Check, 3).reset_after_ns, 1);
        assert_eq!(model.apply(100, Verb::Check, 3).reset_after_ns, 28);
        // Nothing is known after the last edge, so the wait is the longest there is.
        assert_eq!(model.apply(128, Verb::Check, 3).reset_after_ns, u64::MAX);
    }

    #[test]
    fn uniform_records_what_it_refuses_and_saturates() {
        let mut model = uniform(window(Align::First));
        let refused = model.apply(7, Verb::Check, 4);
        assert_eq!((refused.allowed, refused.granted), (false, 4));
        assert_eq!((refused.counter, refused.retry_after_ns), (Some(-1), None));
        let hammered = model.apply(8, Verb::Check, u64::MAX);
        assert_eq!((hammered.counter, hammered.remaining), (Some(-3), Some(0)));
        assert_eq!(model.apply(9, Verb::Check, 1).retry_after_ns, Some(98));
    }
}
