use alloc::boxed::Box;
use core::fmt;

use crate::{Algorithm, Factor};

/// Why the numbers of a limit are not a limit. Displays as one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// A duration that must be positive is zero; names it.
    ZeroPeriod(&'static str),
    /// A duration is longer than 100 years; names it.
    LongPeriod(&'static str),
    /// A number of units that must be positive is zero; names it.
    ZeroUnits(&'static str),
    /// A number of units is above 2^53 − 1; names it.
    ManyUnits(&'static str),
    /// An exact rolling window would keep too long a log.
    LongLog,
    /// A share of errors that is zero, or above 100 %.
    Threshold,
    /// More samples than a log may have entries.
    ManySamples,
    /// More at once than a log may have entries.
    ManyHolders,
    /// More buckets than a log may have entries.
    ManyBuckets,
    /// A full bucket would take more than 100 years to drain.
    SlowRefill,
    /// Buckets of a rolling window that would be shorter than a nanosecond.
    ShortBucket,
    /// Even slots of which half would be shorter than a nanosecond.
    ShortSlot,
    /// The algorithm has no number of units to replace; names it.
    NoUnits(&'static str),
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroPeriod(what) => write!(f, "`{what}` must be longer than zero"),
            Self::LongPeriod(what) => write!(f, "`{what}` must be at most 100 years (36525 days)"),
            Self::ZeroUnits(what) => write!(f, "`{what}` must be at least 1"),
            Self::ManyUnits(what) => write!(f, "`{what}` must be at most 2^53 - 1"),
            Self::LongLog => f.write_str(
                "an exact rolling window holds at most 65536 units; give `buckets` to bound its memory",
            ),
            Self::SlowRefill => f.write_str(
                "`capacity` is so large that it takes over 100 years to return; lower it or raise the rate",
            ),
            Self::ShortBucket => {
                f.write_str("`buckets` must not cut `per` into less than a nanosecond each")
            }
            Self::ShortSlot => f.write_str("even slots hold at most 500000000 per second"),
            Self::NoUnits(algorithm) => write!(f, "a {algorithm} limit has no `limit`"),
            Self::Threshold => f.write_str("`threshold` must be from 0.01% to 100%"),
            Self::ManySamples => f.write_str("`min_samples` must be at most 65536"),
            Self::ManyHolders => f.write_str("a concurrency limit is at most 65536"),
            Self::ManyBuckets => f.write_str("`buckets` must be at most 65536"),
        }
    }
}

impl core::error::Error for LimitError {}

/// Why limits do not form a policy. Displays as one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// More than 16 limits.
    ManyLimits(usize),
    /// Two limits share a name.
    TwinName(Box<str>),
    /// [`Mode::Partial`](crate::Mode::Partial) with limits that count different units: a part of a cost has no
    /// meaning there.
    NotPartial,
    /// [`Mode::CountRefusals`](crate::Mode::CountRefusals) with an algorithm that cannot; names the limit.
    NotCountRefusals(Box<str>),
    /// A limit whose numbers, by this factor, are no limit.
    NotScalable {
        /// The limit's name.
        limit: Box<str>,
        /// The factor.
        factor: Factor,
        /// What is wrong with the numbers.
        reason: LimitError,
    },
    /// Keys cannot migrate by time: that takes one gcra limit without a `min_interval`. Names the policy.
    NotByTime(Box<str>),
    /// A limit whose numbers, divided by the nodes, are no limit.
    NotDivisible {
        /// The limit's name.
        limit: Box<str>,
        /// How many nodes.
        nodes: u64,
        /// What is wrong with the numbers.
        reason: LimitError,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ManyLimits(n) => write!(f, "a policy can have at most 16 limits; found {n}"),
            Self::TwinName(name) => {
                write!(f, "two limits of one policy are named `{name}`; give each its own `name`")
            }
            Self::NotPartial => f.write_str(
                "limits that count different units cannot use partial mode: a part of a cost would have no unit; \
                 split the policy, or use another mode",
            ),
            Self::NotCountRefusals(name) => {
                let can = Algorithm::RECORD_REFUSALS.join(" or ");
                write!(f, "limit `{name}` cannot count refused attempts; use {can}")
            }
            Self::NotScalable { limit, factor, reason } => {
                write!(f, "limit `{limit}` cannot be scaled by {factor}: {reason}")
            }
            Self::NotByTime(policy) => write!(
                f,
                "policy `{policy}` cannot migrate by time: that needs a single gcra limit without min_interval"
            ),
            Self::NotDivisible { limit, nodes, reason } => {
                write!(f, "limit `{limit}` cannot be divided by {nodes} nodes: {reason}")
            }
        }
    }
}

impl core::error::Error for PolicyError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NotScalable { reason, .. } | Self::NotDivisible { reason, .. } => Some(reason),
            _ => None,
        }
    }
}
