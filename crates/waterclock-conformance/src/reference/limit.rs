//! One limit of a key, and what it makes of a cost before anything is charged.

use super::meter::{self, Meter};
use super::min_interval::MinInterval;
use super::search::{Time, Units};
use super::spec::{LimitSpec, Mode};
use super::together::Together;

/// A limit's algorithm and, if it has one, its gap.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub(super) meters: Vec<Box<dyn Meter>>,
    pub(super) shadow: bool,
}

impl Limit {
    pub(super) fn fresh(spec: &LimitSpec) -> Self {
        let gap = spec.min_interval_ns.map(|every| Box::new(MinInterval::new(every)) as Box<_>);
        let meters = [Some(meter::fresh(&spec.algorithm)), gap];
        Self { meters: meters.into_iter().flatten().collect(), shadow: spec.shadow }
    }

    pub(super) fn at(&self, now: Time) -> Together<'_> {
        Together { meters: self.meters.iter().map(|meter| &**meter).collect(), now }
    }
}

/// What one limit, or all live ones together, would do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    /// Admit the whole cost.
    pub(super) allowed: bool,
    /// Admit, or in uniform record, this much.
    pub(super) granted: Units,
    /// Admit nothing of what was asked. A partial grant is not a refusal.
    pub(super) refused: bool,
}

impl Verdict {
    pub(super) fn of(meters: &Together<'_>, mode: Mode, cost: Units) -> Self {
        if meters.admit(cost) {
            return Self { allowed: true, granted: cost, refused: false };
        }
        let granted = match mode {
            Mode::CountRefusals => cost,
            Mode::Binary => 0,
            Mode::Partial => meters.remaining().map_or(0, |remaining| cost.min(remaining)),
        };
        Self { allowed: false, granted, refused: mode != Mode::Partial || granted == 0 }
    }
}
