//! Kinds of random policies.

use fastrand::Rng;

use crate::reference::{Algorithm, Align, LimitSpec, Mode, PolicySpec};

/// A kind of policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the algorithms'")]
pub enum Family {
    Gcra,
    LeakyOneByOne,
    LeakyStaircase,
    FixedFirst,
    FixedEpoch,
    FixedCalendar,
    Sliding,
    RollingExact,
    RollingBuckets,
    Quota,
    EvenSlots,
    MinInterval,
    /// A concurrency limit, alone or with another limit; only reservations are admitted.
    Concurrency,
    /// A circuit breaker, alone or with another limit; its traces have reports.
    ErrorRate,
    /// Two or three limits of any kind, shadows among them.
    Several,
}

impl Family {
    /// Every kind that needs neither reservations nor reports.
    pub const ALL: [Self; 13] = [
        Self::Gcra,
        Self::LeakyOneByOne,
        Self::LeakyStaircase,
        Self::FixedFirst,
        Self::FixedEpoch,
        Self::FixedCalendar,
        Self::Sliding,
        Self::RollingExact,
        Self::RollingBuckets,
        Self::Quota,
        Self::EvenSlots,
        Self::MinInterval,
        Self::Several,
    ];

    pub(crate) fn draw(self, rng: &mut Rng, tick_ns: u64, start_ns: u64) -> PolicySpec {
        let mut limits = Vec::new();
        let count = match self {
            Self::Several => rng.usize(2..=3),
            Self::Concurrency | Self::ErrorRate => rng.usize(1..=2),
            _ => 1,
        };
        for _ in 0..count {
            let single = Self::ALL[rng.usize(0..Self::ALL.len() - 1)];
            let any = self == Self::Several
                || matches!(self, Self::Concurrency | Self::ErrorRate) && !limits.is_empty();
            let family = if any { single } else { self };
            let algorithm = family.algorithm(rng, tick_ns, start_ns);
            let gap = ticks(period_of(&algorithm) / rng.u64(1..40), tick_ns);
            limits.push(LimitSpec {
                algorithm,
                min_interval_ns: (rng.u8(0..4) == 0).then_some(gap),
                shadow: any && rng.u8(0..5) == 0,
            });
        }
        let uniform = limits.iter().all(|limit| {
            use Algorithm::{FixedWindow, RollingWindow, SlidingWindow};
            matches!(
                limit.algorithm,
                FixedWindow { .. } | SlidingWindow { .. } | RollingWindow { .. }
            )
        });
        let mode = match rng.u8(0..10) {
            0..6 => Mode::Binary,
            6 | 7 if uniform => Mode::CountRefusals,
            _ => Mode::Partial,
        };
        PolicySpec { mode, shadow: rng.u8(0..20) == 0, limits }
    }

    /// The time and the number of units around which the policy's decisions change.
    pub(crate) fn measure(self, spec: &PolicySpec) -> (u64, u64) {
        spec.limits.first().map_or((1, 1), |first| {
            (period_of(&first.algorithm), limit_of(&first.algorithm).unwrap_or(3))
        })
    }

    fn algorithm(self, rng: &mut Rng, tick_ns: u64, start_ns: u64) -> Algorithm {
        let (limit, per_ns) = (units(rng), period(rng, tick_ns));
        let overdraft = rng.u8(0..8) == 0;
        match self {
            Self::Gcra | Self::Several => {
                let capacity = if rng.bool() { limit } else { rng.u64(1..=limit * 2) };
                Algorithm::Gcra { limit, per_ns, capacity, overdraft }
            }
            Self::LeakyOneByOne | Self::LeakyStaircase => {
                let capacity = limit.min(1_000);
                let drip = if self == Self::LeakyOneByOne { 1 } else { rng.u64(2..=capacity + 2) };
                Algorithm::LeakyBucket {
                    capacity,
                    drip,
                    every_ns: per_ns / 1_000 + tick_ns,
                    overdraft,
                }
                .whole(tick_ns)
            }
            Self::FixedFirst => Algorithm::FixedWindow { limit, per_ns, align: Align::First },
            Self::FixedEpoch => Algorithm::FixedWindow { limit, per_ns, align: Align::Epoch },
            Self::FixedCalendar => {
                // Months of uneven length, for longer than any trace.
                let lengths = [31, 28, 31, 30];
                let month = per_ns / 31 + tick_ns;
                let edges = (0..64).scan(start_ns, |edge, i| {
                    *edge += ticks(month * lengths[i % 4], tick_ns);
                    Some(*edge)
                });
                Algorithm::FixedWindow { limit, per_ns, align: Align::Calendar(edges.collect()) }
            }
            Self::Sliding => Algorithm::SlidingWindow { limit, per_ns },
            Self::RollingExact => {
                Algorithm::RollingWindow { limit: limit.min(65_536), per_ns, buckets: None }
            }
            Self::RollingBuckets => Algorithm::RollingWindow {
                limit,
                per_ns,
                buckets: Some(rng.u64(1..=60).min(per_ns)),
            },
            Self::Quota => Algorithm::Quota { limit, per_ns },
            Self::EvenSlots => Algorithm::EvenSlots {
                limit: limit.min((per_ns / tick_ns / 2).max(1)),
                per_ns: per_ns.max(2 * tick_ns),
            },
            Self::ErrorRate => Algorithm::ErrorRate {
                threshold: [1, 2_500, 5_000, 6_667, 10_000][rng.usize(0..5)],
                per_ns,
                min_samples: rng.u64(1..=4),
                cool_down_ns: ticks(per_ns / rng.u64(1..8), tick_ns),
            },
            Self::Concurrency => {
                let lease_ns = ticks(per_ns.clamp(2_000_000, 80_000_000_000_000), tick_ns);
                Algorithm::Concurrency { limit: limit.min(65_536), lease_ns }
            }
            Self::MinInterval => Algorithm::MinInterval { every_ns: per_ns },
        }
    }
}

impl Algorithm {
    /// The same with its interval rounded to ticks.
    fn whole(mut self, tick_ns: u64) -> Self {
        if let Self::LeakyBucket { every_ns, .. } = &mut self {
            *every_ns = ticks(*every_ns, tick_ns);
        }
        self
    }
}

fn units(rng: &mut Rng) -> u64 {
    match rng.u8(0..10) {
        0..2 => rng.u64(1..=3),
        2..6 => rng.u64(1..=12),
        6..8 => rng.u64(1..=100),
        8 => rng.u64(1..=100_000),
        _ => 1_000_000_000,
    }
}

/// Usual periods, odd ones, and everything between a few ticks and a year.
fn period(rng: &mut Rng, tick_ns: u64) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let per = match rng.u8(0..10) {
        0..3 => SECOND,
        3 => 60 * SECOND,
        4 => 100_000_000,
        5 => 1_000_003_000,
        6 => rng.u64(1..=50) * tick_ns,
        7 => rng.u64(1..=SECOND),
        8 => 86_400 * SECOND,
        _ => 365 * 86_400 * SECOND,
    };
    ticks(per, tick_ns)
}

/// At least one tick, and a whole number of them.
fn ticks(ns: u64, tick_ns: u64) -> u64 {
    (ns / tick_ns).max(1) * tick_ns
}

pub(crate) fn period_of(algorithm: &Algorithm) -> u64 {
    match *algorithm {
        Algorithm::Gcra { per_ns, .. }
        | Algorithm::FixedWindow { per_ns, .. }
        | Algorithm::SlidingWindow { per_ns, .. }
        | Algorithm::RollingWindow { per_ns, .. }
        | Algorithm::Quota { per_ns, .. }
        | Algorithm::ErrorRate { per_ns, .. }
        | Algorithm::EvenSlots { per_ns, .. } => per_ns,
        Algorithm::LeakyBucket { every_ns, .. } | Algorithm::MinInterval { every_ns } => every_ns,
        Algorithm::Concurrency { lease_ns, .. } => lease_ns,
    }
}

pub(crate) fn limit_of(algorithm: &Algorithm) -> Option<u64> {
    match *algorithm {
        Algorithm::Gcra { capacity, .. } | Algorithm::LeakyBucket { capacity, .. } => {
            Some(capacity)
        }
        Algorithm::FixedWindow { limit, .. }
        | Algorithm::SlidingWindow { limit, .. }
        | Algorithm::RollingWindow { limit, .. }
        | Algorithm::Quota { limit, .. }
        | Algorithm::Concurrency { limit, .. } => Some(limit),
        Algorithm::EvenSlots { .. }
        | Algorithm::MinInterval { .. }
        | Algorithm::ErrorRate { .. } => None,
    }
}
