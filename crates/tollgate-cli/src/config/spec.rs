//! What a policy says once it is read: defaults filled in, durations in microseconds.

use tollgate::Policy;

use super::micros::Micros;

/// A policy as the file describes it.
pub(crate) struct PolicySpec {
    pub(crate) name: String,
    pub(crate) key: Vec<String>,
    pub(crate) mode: &'static str,
    pub(crate) headers: &'static str,
    pub(crate) on_store_error: &'static str,
    pub(crate) shadow: bool,
    pub(crate) limits: Vec<LimitSpec>,
    /// Old three-number limits that say nothing, by the name they would have had.
    pub(crate) disabled: Vec<String>,
    /// Settings that stand in the file but that nothing applies yet.
    pub(crate) not_applied: Vec<&'static str>,
    /// What decides.
    pub(crate) built: Policy,
}

/// A limit as the file describes it.
#[derive(Debug, Clone)]
pub(crate) struct LimitSpec {
    pub(crate) name: String,
    pub(crate) algorithm: AlgorithmSpec,
    pub(crate) min_interval: Option<Micros>,
    pub(crate) unit: String,
    pub(crate) shadow: bool,
}

/// An algorithm with its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AlgorithmSpec {
    Gcra { limit: u64, per: Micros, capacity: u64, overdraft: bool },
    LeakyBucket { capacity: u64, drip: u64, every: Micros, overdraft: bool },
    FixedWindow { limit: u64, window: Window },
    SlidingWindow { limit: u64, per: Micros },
    RollingWindow { limit: u64, per: Micros, buckets: Option<u64> },
    Quota { limit: u64, per: Micros },
    EvenSlots { limit: u64, per: Micros },
    MinInterval { every: Micros },
}

/// Where the windows of a fixed window start and how long they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Window {
    /// With the first admitted cost.
    First(Micros),
    /// At multiples of the period since the Unix epoch.
    Epoch(Micros),
    /// With the day, week, month or year of a time zone.
    Calendar { per: &'static str, timezone: String },
}

impl AlgorithmSpec {
    /// The one name under which normalised policies know it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            AlgorithmSpec::Gcra { .. } => "gcra",
            AlgorithmSpec::LeakyBucket { .. } => "leaky-bucket",
            AlgorithmSpec::FixedWindow { .. } => "fixed-window",
            AlgorithmSpec::SlidingWindow { .. } => "sliding-window",
            AlgorithmSpec::RollingWindow { .. } => "rolling-window",
            AlgorithmSpec::Quota { .. } => "quota",
            AlgorithmSpec::EvenSlots { .. } => "even-slots",
            AlgorithmSpec::MinInterval { .. } => "min-interval",
        }
    }

    /// Whether it can record what it refuses, as `mode = "uniform"` asks.
    pub(crate) fn records_refusals(&self) -> bool {
        matches!(
            self,
            AlgorithmSpec::FixedWindow { .. }
                | AlgorithmSpec::SlidingWindow { .. }
                | AlgorithmSpec::RollingWindow { .. }
        )
    }
}
