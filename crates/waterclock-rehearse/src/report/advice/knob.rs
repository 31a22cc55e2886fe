//! The one number of a limit that is varied, the others in proportion.

use std::time::Duration;

use waterclock::{Limit, MAX_UNITS, MinInterval, Mode, Policy};

/// A limit that can be turned. A larger turn admits more; a client that one turn suits, every larger one suits.
pub(super) struct Knob {
    limit: Limit,
    mode: Mode,
    /// How far it can be turned.
    pub(super) most: u64,
    counts_units: bool,
}

impl Knob {
    /// `None` for limits that do not bound an amount (error-rate, concurrency), and for even slots, which are closed
    /// half of the time however many there are.
    pub(super) fn of(limit: &Limit, mode: Mode, span_us: u64) -> Option<Knob> {
        let counts_units = limit.max_cost().is_some() && limit.lease().is_none();
        let has_one = counts_units || limit.every().is_some();
        // Up to the shortest interval there is.
        let most = if counts_units { MAX_UNITS } else { span_us.max(1) };
        let limit = limit.clone().with_shadow(false);
        let mut knob = has_one.then_some(Knob { limit, mode, most, counts_units })?;
        knob.most = knob.farthest();
        Some(knob)
    }

    /// The farthest turn that gives a valid limit.
    fn farthest(&self) -> u64 {
        let (mut valid, mut beyond) = (0, self.most + 1);
        if self.turned(self.most).is_some() {
            return self.most;
        }
        while beyond - valid > 1 {
            let middle = valid + (beyond - valid) / 2;
            if self.turned(middle).is_some() { valid = middle } else { beyond = middle }
        }
        valid
    }

    pub(super) fn turned(&self, turn: u64) -> Option<Limit> {
        if self.counts_units {
            return self.limit.with_limit(turn).ok();
        }
        let every = Duration::from_micros(self.number(turn));
        let turned = Limit::from(MinInterval::new(every).ok()?);
        let turned = turned.with_name(self.limit.name()).with_unit(self.limit.unit());
        match self.limit.min_interval() {
            Some(gap) => turned.with_min_interval(gap).ok(),
            None => Some(turned),
        }
    }

    /// The turned limit alone, ready to decide.
    pub(super) fn policy(&self, turn: u64) -> Option<Policy> {
        let policy = Policy::new("advice", [self.turned(turn)?]).ok()?;
        policy.with_mode(self.mode).ok()
    }

    /// The limit's number after a turn: units, or the microseconds of an interval, of which fewer admit more.
    pub(super) fn number(&self, turn: u64) -> u64 {
        if self.counts_units { turn } else { (self.most + 1).saturating_sub(turn).max(1) }
    }

    /// How much a client asks for that needs this turn, to compare clients: units, or how often the interval fits.
    pub(super) fn demand(&self, turn: u64) -> u64 {
        if self.counts_units || turn > self.most { turn } else { self.most / self.number(turn) }
    }

    /// The turn that gives a number.
    fn turn(&self, number: u64) -> u64 {
        if self.counts_units { number } else { (self.most + 1).saturating_sub(number) }
    }

    /// The turn that the limit itself has; none if it is beyond all traffic.
    pub(super) fn own(&self) -> Option<u64> {
        let every_us = || u64::try_from(self.limit.every()?.as_micros()).ok();
        let number = match self.counts_units {
            true => self.limit.limit().or(self.limit.capacity()),
            false => every_us(),
        };
        number.map(|number| self.turn(number)).filter(|turn| (1..=self.most).contains(turn))
    }

    /// What the number is called in a configuration.
    pub(super) fn field(&self) -> &'static str {
        match (self.counts_units, self.limit.limit()) {
            (true, Some(_)) => "limit",
            (true, None) => "capacity",
            (false, _) => "every",
        }
    }

    /// Round numbers between two turns, as their turns: few enough to play each.
    pub(super) fn round_turns(&self, from: u64, until: u64) -> Vec<u64> {
        let (one, other) = (self.number(from), self.number(until));
        let (least, most) = (one.min(other), one.max(other));
        let series: [&[u64]; 3] = [&[10, 12, 15, 20, 25, 30, 40, 50, 60, 80], &[10, 20, 50], &[10]];
        let round = |digits: &'static [u64]| {
            let powers = (0..=u64::MAX.ilog10()).map(|power| 10_u64.pow(power));
            let numbers = powers.flat_map(move |power| {
                digits.iter().filter_map(move |digits| {
                    let number = u128::from(*digits) * u128::from(power);
                    number.is_multiple_of(10).then(|| u64::try_from(number / 10).ok())?
                })
            });
            numbers.filter(move |number| (least..=most).contains(number))
        };
        let fits = |digits: &&&'static [u64]| round(digits).count() <= MOST_ROUND;
        let digits = series.iter().find(fits).copied().unwrap_or(series[2]);
        round(digits).map(|number| self.turn(number)).collect()
    }
}

/// A curve has about as many points.
const MOST_ROUND: usize = 36;
