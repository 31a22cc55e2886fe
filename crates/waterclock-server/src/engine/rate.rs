//! Numbers that come with a call instead of the configuration.

use std::fmt;
use std::time::Duration;

use waterclock_config::{AlgorithmSpec, LimitSpec, Micros, Window};

/// Units per period, in place of those of a policy's first limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Units per period.
    pub limit: u64,
    /// The period.
    pub per: Duration,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}us", self.limit, self.per.as_micros())
    }
}

impl Rate {
    /// The same limit with these numbers. What has no such numbers (a minimal interval) becomes gcra.
    pub(super) fn instead_of(self, limit: &LimitSpec) -> LimitSpec {
        let (count, per) =
            (self.limit, Micros(self.per.as_micros().try_into().unwrap_or(u64::MAX)));
        let algorithm = match &limit.algorithm {
            AlgorithmSpec::FixedWindow { window: Window::First(_), .. } => {
                AlgorithmSpec::FixedWindow { limit: count, window: Window::First(per) }
            }
            AlgorithmSpec::FixedWindow { .. } => {
                AlgorithmSpec::FixedWindow { limit: count, window: Window::Epoch(per) }
            }
            AlgorithmSpec::SlidingWindow { .. } => {
                AlgorithmSpec::SlidingWindow { limit: count, per }
            }
            AlgorithmSpec::RollingWindow { buckets, .. } => {
                AlgorithmSpec::RollingWindow { limit: count, per, buckets: *buckets }
            }
            AlgorithmSpec::Quota { .. } => AlgorithmSpec::Quota { limit: count, per },
            AlgorithmSpec::EvenSlots { .. } => AlgorithmSpec::EvenSlots { limit: count, per },
            AlgorithmSpec::Gcra { overdraft, .. }
            | AlgorithmSpec::LeakyBucket { overdraft, .. } => {
                AlgorithmSpec::Gcra { limit: count, per, capacity: count, overdraft: *overdraft }
            }
            AlgorithmSpec::Concurrency { lease, .. } => {
                AlgorithmSpec::Concurrency { limit: count, lease: *lease }
            }
            AlgorithmSpec::MinInterval { .. } | AlgorithmSpec::ErrorRate { .. } => {
                AlgorithmSpec::Gcra { limit: count, per, capacity: count, overdraft: false }
            }
        };
        LimitSpec { algorithm, ..limit.clone() }
    }
}
