//! Shared by the tests of this model: shortcuts to build policies, and a seeded random generator.

use super::{Algorithm, Align, LimitSpec, Mode, Model, PolicySpec, Verb};

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const MS: u64 = 1_000_000;

pub(super) fn live(algorithm: Algorithm) -> LimitSpec {
    LimitSpec { algorithm, min_interval_ns: None, shadow: false }
}

pub(super) fn policy(algorithm: Algorithm) -> Model {
    Model::new(PolicySpec { mode: Mode::Binary, shadow: false, limits: vec![live(algorithm)] })
}

pub(super) fn uniform(algorithm: Algorithm) -> Model {
    Model::new(PolicySpec {
        mode: Mode::CountRefusals,
        shadow: false,
        limits: vec![live(algorithm)],
    })
}

/// How many of the checks of one unit at these instants are allowed.
pub(super) fn checks(model: &mut Model, at: impl Iterator<Item = u64>) -> usize {
    at.filter(|&now| model.apply(now, Verb::Check, 1).allowed).count()
}

/// A seeded random generator (splitmix64), so that failures can be reproduced.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Mostly checks.
    pub(super) fn verb(&mut self) -> Verb {
        match self.below(20) {
            0..=2 => Verb::Peek,
            3 => Verb::Refund,
            4 => Verb::Reset,
            5 => Verb::Debit,
            _ => Verb::Check,
        }
    }

    /// Any algorithm, or only the windows that count-refusals mode supports, with numbers up to `limit` and `per`.
    pub(super) fn algorithm(&mut self, windows_only: bool, limit: u64, per: u64) -> Algorithm {
        let edges = (1..40).map(|i| per.saturating_mul(i)).collect();
        let (limit, per_ns) = (self.below(limit) + 1, self.below(per) + 1);
        match self.below(if windows_only { 5 } else { 10 }) {
            0 => Algorithm::FixedWindow { limit, per_ns, align: Align::First },
            1 => Algorithm::FixedWindow { limit, per_ns, align: Align::Epoch },
            2 => Algorithm::FixedWindow { limit, per_ns, align: Align::Calendar(edges) },
            3 => Algorithm::SlidingWindow { limit, per_ns },
            4 => {
                let buckets = self.coin().then(|| self.below(5) + 1);
                Algorithm::RollingWindow { limit, per_ns, buckets }
            }
            5 => {
                let capacity = self.below(limit * 2) + 1;
                Algorithm::Gcra { limit, per_ns, capacity, overdraft: self.below(4) == 0 }
            }
            6 => {
                let drip = self.below(limit) + 1;
                let overdraft = self.below(4) == 0;
                Algorithm::LeakyBucket { capacity: limit, drip, every_ns: per_ns, overdraft }
            }
            7 => Algorithm::Quota { limit, per_ns },
            // Half-slots must be at least one instant long.
            8 => Algorithm::EvenSlots { limit: limit.min(per_ns.div_ceil(2)), per_ns: per_ns + 1 },
            _ => Algorithm::MinInterval { every_ns: per_ns },
        }
    }

    pub(super) fn policy(&mut self, mode: Mode, limit: u64, per: u64) -> PolicySpec {
        let limits = (0..=self.below(3)).map(|_| LimitSpec {
            algorithm: self.algorithm(mode == Mode::CountRefusals, limit, per),
            min_interval_ns: (self.below(5) == 0).then(|| self.below(per)),
            shadow: self.below(6) == 0,
        });
        PolicySpec { mode, shadow: false, limits: limits.collect() }
    }
}
