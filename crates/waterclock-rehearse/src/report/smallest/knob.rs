//! The one number of an algorithm that is turned, the others in proportion.

use waterclock::MAX_UNITS;
use waterclock_config::{AlgorithmSpec, Micros};

/// Turned further, it admits more.
pub(super) struct Knob {
    algorithm: AlgorithmSpec,
    span_us: u64,
}

impl Knob {
    /// `None` for what does not limit how much is asked for, and for slots, which are closed half of the time
    /// however many there are.
    pub(super) fn of(algorithm: &AlgorithmSpec, span_us: u64) -> Option<Knob> {
        let has_none = matches!(
            algorithm,
            AlgorithmSpec::ErrorRate { .. }
                | AlgorithmSpec::Concurrency { .. }
                | AlgorithmSpec::EvenSlots { .. }
        );
        (!has_none).then(|| Knob { algorithm: algorithm.clone(), span_us })
    }

    /// How far it can be turned.
    pub(super) fn most(&self) -> u64 {
        match self.algorithm {
            // The shortest interval there is.
            AlgorithmSpec::MinInterval { .. } => self.span_us.max(1),
            _ => MAX_UNITS,
        }
    }

    /// `None` where it cannot be turned so far.
    pub(super) fn turned(&self, turn: u64) -> Option<AlgorithmSpec> {
        let mut turned = self.algorithm.clone();
        match &mut turned {
            AlgorithmSpec::Gcra { limit, capacity, .. } => {
                *capacity = in_proportion(*capacity, turn, *limit)?;
                *limit = turn;
            }
            AlgorithmSpec::LeakyBucket { capacity, drip, .. } => {
                *drip = in_proportion(*drip, turn, *capacity)?;
                *capacity = turn;
            }
            AlgorithmSpec::FixedWindow { limit, .. }
            | AlgorithmSpec::SlidingWindow { limit, .. }
            | AlgorithmSpec::RollingWindow { limit, .. }
            | AlgorithmSpec::Quota { limit, .. } => *limit = turn,
            // The shorter, the more.
            AlgorithmSpec::MinInterval { every } => {
                *every = Micros((self.most() + 1).saturating_sub(turn).max(1));
            }
            AlgorithmSpec::EvenSlots { .. }
            | AlgorithmSpec::ErrorRate { .. }
            | AlgorithmSpec::Concurrency { .. } => return None,
        }
        Some(turned)
    }
}

fn in_proportion(number: u64, turn: u64, of: u64) -> Option<u64> {
    let scaled = (u128::from(number) * u128::from(turn)).div_ceil(u128::from(of.max(1)));
    u64::try_from(scaled.max(1)).ok()
}

/// Units that are never refused to a key that asks for no more in all its life.
pub(super) fn fits(algorithm: &AlgorithmSpec) -> u64 {
    match algorithm {
        AlgorithmSpec::Gcra { capacity, .. } | AlgorithmSpec::LeakyBucket { capacity, .. } => {
            *capacity
        }
        AlgorithmSpec::FixedWindow { limit, .. }
        | AlgorithmSpec::SlidingWindow { limit, .. }
        | AlgorithmSpec::RollingWindow { limit, .. } => *limit,
        _ => 0,
    }
}
