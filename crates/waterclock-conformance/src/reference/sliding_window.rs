//! sliding-window by windows: each counts fully while it lasts, then fades during the next.

use super::meter::{Meter, positive};
use super::search::{MOST_UNITS, Time, Units};

/// The windows that still weigh, oldest first: at most two.
#[derive(Clone, Debug)]
pub(super) struct SlidingWindow {
    limit: Units,
    per: Time,
    windows: Vec<Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    start: Time,
    count: Units,
}

impl SlidingWindow {
    pub(super) fn new(limit: u64, per_ns: u64) -> Self {
        Self { limit: positive(limit), per: positive(per_ns), windows: Vec::new() }
    }

    /// How much one unit of a window weighs, out of `per`.
    fn weight(&self, window: &Window, at: Time) -> Time {
        (window.start + 2 * self.per).saturating_sub(at).min(self.per)
    }

    /// What was used, in parts of a unit, `per` parts to one.
    fn used(&self, at: Time) -> u128 {
        self.windows.iter().map(|window| window.count * self.weight(window, at)).sum()
    }

    fn add(&mut self, at: Time, cost: Units, most: Units) {
        let start = at - at % self.per;
        self.windows.retain(|window| window.start + 2 * self.per > at);
        match self.windows.last_mut().filter(|window| window.start == start) {
            Some(current) => current.count = (current.count + cost).min(most.max(current.count)),
            None => self.windows.push(Window { start, count: cost.min(most) }),
        }
    }
}

impl Meter for SlidingWindow {
    fn limit(&self) -> Option<Units> {
        Some(self.limit)
    }

    fn fits(&self, at: Time, cost: Units) -> bool {
        self.used(at) + cost * self.per <= self.limit * self.per
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.used(at) == 0
    }

    fn charge(&mut self, at: Time, cost: Units) {
        self.add(at, cost, Units::MAX);
    }

    fn debit(&mut self, at: Time, units: Units) {
        self.add(at, units, MOST_UNITS);
    }

    fn record(&mut self, at: Time, cost: Units) {
        self.add(at, cost, 2 * self.limit);
    }

    fn give_back(&mut self, at: Time, charged_at: Time, units: Units) {
        self.windows.retain(|window| window.start + 2 * self.per > at);
        let start = charged_at - charged_at % self.per;
        if let Some(own) = self.windows.iter_mut().find(|window| window.start == start) {
            own.count = own.count.saturating_sub(units);
        }
    }

    fn refund(&mut self, at: Time, units: Units) {
        self.windows.retain(|window| window.start + 2 * self.per > at);
        let mut left = units;
        for window in self.windows.iter_mut().rev() {
            let back = left.min(window.count);
            window.count -= back;
            left -= back;
        }
    }

    fn counter(&self, at: Time) -> Option<i64> {
        let limit = i128::try_from(self.limit).ok()?;
        let per = i128::try_from(self.per).ok()?;
        let used = i128::try_from(self.used(at)).ok()?;
        i64::try_from((limit * per - used).div_euclid(per).max(-limit)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Dice, policy, uniform};
    use super::super::{Algorithm, Verb};

    #[test]
    fn the_previous_window_fades() {
        let mut model = policy(Algorithm::SlidingWindow { limit: 10, per_ns: 100 });
        assert_eq!(model.apply(90, Verb::Check, 10).reset_after_ns, 110);
        assert_eq!(model.apply(100, Verb::Peek, 1).retry_after_ns, Some(10));
        assert_eq!(model.apply(125, Verb::Peek, 1).remaining, Some(2));
        let spent = model.apply(125, Verb::Check, 2);
        assert_eq!((spent.remaining, spent.next_unit_ns), (Some(0), Some(5)));
        assert_eq!(spent.reset_after_ns, 175);
    }

    #[test]
    fn a_refund_takes_from_the_current_window_first() {
        let mut model = policy(Algorithm::SlidingWindow { limit: 10, per_ns: 100 });
        model.apply(0, Verb::Check, 10);
        model.apply(150, Verb::Check, 5);
        assert_eq!(model.apply(150, Verb::Refund, 5).reset_after_ns, 50);
        assert_eq!(model.apply(150, Verb::Refund, 4).remaining, Some(7));
        assert_eq!(model.apply(150, Verb::Refund, 9).reset_after_ns, 0);
    }

    #[test]
    fn uniform_counts_down_to_minus_limit() {
        let mut model = uniform(Algorithm::SlidingWindow { limit: 3, per_ns: 100 });
        assert_eq!(model.apply(0, Verb::Check, 9).counter, Some(-3));
        // Twice the limit is remembered, so half of the next window is still closed.
        assert_eq!(model.apply(100, Verb::Peek, 1).retry_after_ns, Some(67));
        assert_eq!(model.apply(150, Verb::Peek, 1).counter, Some(0));
    }

    /// The published closed form, against the search.
    #[test]
    fn agrees_with_the_formula_of_the_page() {
        let mut dice = Dice::new(5);
        for _ in 0..20_000 {
            let (limit, per) = (dice.below(12) + 1, dice.below(30) + 1);
            let mut model = policy(Algorithm::SlidingWindow { limit, per_ns: per });
            model.apply(dice.below(per), Verb::Check, dice.below(limit + 1));
            let now = per + dice.below(per);
            model.apply(now, Verb::Check, dice.below(limit + 1));
            let own = &model;
            let (e, n) = (now - per, dice.below(limit) + 1);
            let answer = own.clone().apply(now, Verb::Peek, n);
            let (prev, cur) = counts(own, per);
            let reset =
                [0, per - e, 2 * per - e][usize::from(prev > 0).max(2 * usize::from(cur > 0))];
            assert_eq!(answer.reset_after_ns, reset);
            if answer.allowed {
                continue;
            }
            let retry = if cur + n <= limit {
                per - (limit - cur - n) * per / prev - e
            } else {
                (per - e) + per - (limit - n) * per / cur
            };
            assert_eq!(answer.retry_after_ns, Some(retry));
        }
    }

    /// What the first two windows hold, read off the answers: at the last instant of the second
    /// window only the current count is left once the previous one is refunded away.
    fn counts(model: &super::super::Model, per: u64) -> (u64, u64) {
        let mut probe = model.clone();
        let now = 2 * per - 1;
        let mut cur = 0;
        while probe.apply(now, Verb::Peek, 0).reset_after_ns > 1 {
            probe.apply(now, Verb::Refund, 1);
            cur += 1;
        }
        let mut prev = 0;
        while probe.apply(now, Verb::Peek, 0).reset_after_ns > 0 {
            probe.apply(now, Verb::Refund, 1);
            prev += 1;
        }
        (prev, cur)
    }
}
