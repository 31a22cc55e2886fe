//! even-slots: one event in each even half-slot, none in the odd ones.

use super::meter::{Meter, positive};
use super::search::{Time, Units};

/// The half-slot of the last admission.
#[derive(Clone, Debug)]
pub(super) struct EvenSlots {
    /// Half-slots per period.
    halves: u128,
    per: Time,
    taken: Option<u128>,
}

impl EvenSlots {
    pub(super) fn new(limit: u64, per_ns: u64) -> Self {
        Self { halves: 2 * positive(limit), per: positive(per_ns), taken: None }
    }

    fn half(&self, at: Time) -> u128 {
        at * self.halves / self.per
    }
}

impl Meter for EvenSlots {
    fn limit(&self) -> Option<Units> {
        None
    }

    fn fits(&self, at: Time, _cost: Units) -> bool {
        let half = self.half(at);
        half.is_multiple_of(2) && self.taken != Some(half)
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.taken != Some(self.half(at))
    }

    fn reopens(&self, at: Time) -> Option<Time> {
        let next_even = self.half(at) / 2 * 2 + 2;
        Some((next_even * self.per).div_ceil(self.halves))
    }

    fn charge(&mut self, at: Time, _cost: Units) {
        self.taken = Some(self.half(at));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{checks, policy};
    use super::super::{Algorithm, Verb};

    #[test]
    fn one_batch_in_each_even_half() {
        let mut model = policy(Algorithm::EvenSlots { limit: 2, per_ns: 100 });
        let open = model.apply(10, Verb::Peek, 7);
        assert_eq!((open.limit, open.remaining, open.next_unit_ns), (None, None, None));
        let taken = model.apply(10, Verb::Check, 7);
        assert_eq!((taken.remaining, taken.next_unit_ns), (Some(0), Some(40)));
        assert_eq!(taken.reset_after_ns, 15);
        // A fresh key is closed in the odd half too.
        let odd = model.apply(30, Verb::Check, 1);
        assert_eq!((odd.allowed, odd.retry_after_ns, odd.reset_after_ns), (false, Some(20), 0));
        assert_eq!(checks(&mut model, 31..1_000), 19);
    }

    #[test]
    fn halves_need_not_be_whole() {
        let mut model = policy(Algorithm::EvenSlots { limit: 3, per_ns: 10 });
        // Even halves begin at 0, 3⅓, 6⅔; odd ones at 1⅔, 5, 8⅓.
        let open = |t| model.apply(t, Verb::Peek, 1).allowed;
        let open: Vec<_> = (0..11).map(open).collect();
        let expected = [1, 1, 0, 0, 1, 0, 0, 1, 1, 0, 1].map(|bit| bit == 1);
        assert_eq!(open, expected);
    }

    #[test]
    fn a_refund_gives_no_slot_back() {
        let mut model = policy(Algorithm::EvenSlots { limit: 1, per_ns: 100 });
        model.apply(0, Verb::Check, 1);
        assert_eq!(model.apply(1, Verb::Refund, 1).remaining, Some(0));
    }
}
