//! leaky-bucket by busy spells: what was poured since it was last empty, minus the drips.

use super::meter::{Meter, positive};
use super::search::{CENTURY, FORTY_YEARS, MOST_UNITS, Time, Units};

/// A level that sinks by `drip` at a time.
#[derive(Clone, Debug)]
pub(super) struct LeakyBucket {
    capacity: Units,
    drip: Units,
    every: Time,
    overdraft: bool,
    /// Ends as soon as the drips since its start exceed what was poured.
    spell: Option<Spell>,
}

/// The time from one emptiness to the next. Its anchor never moves.
#[derive(Clone, Copy, Debug)]
struct Spell {
    start: Time,
    poured: Units,
}

impl LeakyBucket {
    pub(super) fn new(capacity: u64, drip: u64, every_ns: u64, overdraft: bool) -> Self {
        let (capacity, drip, every) = (positive(capacity), positive(drip), positive(every_ns));
        Self { capacity, drip, every, overdraft, spell: None }
    }

    fn level(&self, at: Time) -> Units {
        self.spell.map_or(0, |spell| {
            let drips = (at - spell.start) / self.every;
            spell.poured.saturating_sub(drips * self.drip)
        })
    }
}

impl Meter for LeakyBucket {
    fn limit(&self) -> Option<Units> {
        Some(self.capacity)
    }

    fn fits(&self, at: Time, cost: Units) -> bool {
        self.level(at) + cost <= self.capacity
    }

    fn admits(&self, at: Time, cost: Units) -> bool {
        self.fits(at, if self.overdraft { 1 } else { cost })
    }

    fn ever_admits(&self, cost: Units) -> bool {
        self.overdraft || cost <= self.capacity
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.level(at) == 0
    }

    fn charge(&mut self, at: Time, cost: Units) {
        let lasting = self.spell.filter(|_| self.level(at) > 0);
        let spell = lasting.unwrap_or(Spell { start: at, poured: 0 });
        // At most what drains within the deepest debt, and at most `MOST_UNITS`.
        let deepest = match self.overdraft {
            true => CENTURY,
            false => FORTY_YEARS.max(self.capacity.div_ceil(self.drip) * self.every),
        };
        let since_drip = (at - spell.start) % self.every;
        let most = ((deepest + since_drip) / self.every * self.drip).min(MOST_UNITS);
        let cost = cost.min(most.saturating_sub(self.level(at)));
        self.spell = Some(Spell { poured: spell.poured + cost, ..spell });
    }

    fn debit(&mut self, at: Time, units: Units) {
        self.charge(at, units);
    }

    fn refund(&mut self, at: Time, units: Units) {
        let left = self.level(at).saturating_sub(units);
        self.spell = self.spell.filter(|_| left > 0).map(|spell| {
            let poured = spell.poured - (self.level(at) - left);
            Spell { poured, ..spell }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Dice, MS, SECOND, policy};
    use super::super::{Algorithm, Model, Verb};

    fn leaky(capacity: u64, drip: u64, every_ns: u64, overdraft: bool) -> Model {
        policy(Algorithm::LeakyBucket { capacity, drip, every_ns, overdraft })
    }

    #[test]
    fn sinks_in_stairs_anchored_where_it_was_last_empty() {
        let mut model = leaky(5, 2, SECOND, false);
        model.apply(500 * MS, Verb::Check, 5);
        assert_eq!(model.apply(1_499 * MS, Verb::Peek, 1).remaining, Some(0));
        assert_eq!(model.apply(1_500 * MS, Verb::Peek, 1).remaining, Some(2));
        let refused = model.apply(1_600 * MS, Verb::Check, 5);
        assert_eq!(refused.retry_after_ns, Some(1_900 * MS));
        assert_eq!(refused.reset_after_ns, 1_900 * MS);
        // Empty from 3.5 s on, so the next drip is counted from the next charge.
        model.apply(4_000 * MS, Verb::Check, 5);
        assert_eq!(model.apply(4_700 * MS, Verb::Peek, 1).retry_after_ns, Some(300 * MS));
    }

    #[test]
    fn a_refund_keeps_the_anchor_unless_it_empties() {
        let mut model = leaky(5, 2, SECOND, false);
        model.apply(0, Verb::Check, 5);
        let left = model.apply(400 * MS, Verb::Refund, 3);
        assert_eq!((left.remaining, left.reset_after_ns), (Some(3), 600 * MS));
        assert_eq!(model.apply(500 * MS, Verb::Refund, 9).reset_after_ns, 0);
        assert_eq!(model.apply(600 * MS, Verb::Check, 1).reset_after_ns, SECOND);
    }

    #[test]
    fn one_unit_drips_are_gcra() {
        let mut dice = Dice::new(11);
        for _ in 0..2_000 {
            let (capacity, every_ns) = (dice.below(6) + 1, dice.below(9) + 1);
            let overdraft = dice.below(2) == 0;
            let mut stairs = leaky(capacity, 1, every_ns, overdraft);
            let ramp = Algorithm::Gcra { limit: 1, per_ns: every_ns, capacity, overdraft };
            let mut ramp = policy(ramp);
            let mut now = 0;
            for _ in 0..40 {
                now += dice.below(12);
                let cost = dice.below(capacity + 3);
                let verb = dice.verb();
                assert_eq!(stairs.apply(now, verb, cost), ramp.apply(now, verb, cost));
            }
        }
    }
}
