//! Policies and calls from bytes, within what the constructors accept.

use arbitrary::{Result, Unstructured};
use waterclock_conformance::reference::{Algorithm, Align, LimitSpec, Mode, PolicySpec, Verb};
use waterclock_conformance::{Case, Event};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

const VERBS: [Verb; 8] = [
    Verb::Check,
    Verb::Check,
    Verb::Check,
    Verb::Check,
    Verb::Peek,
    Verb::Debit,
    Verb::Refund,
    Verb::Reset,
];
const REPORTS: [Verb; 3] = [Verb::ReportOk, Verb::ReportError, Verb::ReportError];

/// A policy of one to three limits, and up to twelve calls for one key. With `tick`, all times are multiples of it.
pub fn case(from: &mut Unstructured<'_>, tick: u64) -> Result<Case> {
    let many = from.int_in_range(1..=3)?;
    let limits = (0..many).map(|i| limit(from, tick, i == 0)).collect::<Result<Vec<LimitSpec>>>();
    let mut limits = limits?;
    if let [only] = &mut limits[..] {
        // It would bound nothing.
        only.shadow = false;
    }
    let counts = limits.iter().all(|limit| {
        use Algorithm::{FixedWindow, RollingWindow, SlidingWindow};
        matches!(limit.algorithm, FixedWindow { .. } | SlidingWindow { .. } | RollingWindow { .. })
    });
    let mode = match from.int_in_range(0..=3)? {
        0 | 1 => Mode::Binary,
        2 if counts => Mode::CountRefusals,
        _ => Mode::Partial,
    };
    let spec = PolicySpec { mode, shadow: from.ratio(1, 20)?, limits };
    let mut at_ns = *from.choose(&[0, 1 << 31, 1_794_000_000 * SECOND])?;
    let mut trace = Vec::new();
    let breaks = spec.limits.iter().any(|limit| is_breaker(&limit.algorithm));
    for _ in 0..from.int_in_range(1..=12)? {
        at_ns += step(from, &spec)?;
        let reports = breaks && from.ratio(1, 2)?;
        let verb = *from.choose(if reports { &REPORTS[..] } else { &VERBS[..] })?;
        // The model keeps each report.
        let cost = if reports { from.int_in_range(0..=3)? } else { cost(from)? };
        trace.push(Event { at_ns: at_ns / tick * tick, verb, cost });
    }
    Ok(Case { spec, trace, dice: from.arbitrary()? })
}

fn is_breaker(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::ErrorRate { .. })
}

/// Only the first limit of a policy may be a breaker.
fn limit(from: &mut Unstructured<'_>, tick: u64, may_break: bool) -> Result<LimitSpec> {
    let (limit, per_ns) = (units(from)?, period(from, tick)?);
    let overdraft = from.ratio(1, 8)?;
    let algorithm = match from.int_in_range(0..=if may_break { 11 } else { 10 })? {
        0 => Algorithm::Gcra { limit, per_ns, capacity: limit, overdraft },
        1 => {
            // A bucket refills within 100 years; more is cut off.
            let most = 36_500 * DAY / per_ns;
            let capacity = units(from)?.min(most.saturating_mul(limit));
            Algorithm::Gcra { limit, per_ns, capacity, overdraft }
        }
        2 => {
            let (capacity, drip) = (limit.min(1_000), from.int_in_range(1..=9)?);
            let every_ns = (per_ns / 1_000 / tick + 1) * tick;
            Algorithm::LeakyBucket { capacity, drip, every_ns, overdraft }
        }
        3 => Algorithm::FixedWindow { limit, per_ns, align: Align::First },
        4 => Algorithm::FixedWindow { limit, per_ns, align: Align::Epoch },
        5 => Algorithm::SlidingWindow { limit, per_ns },
        6 => Algorithm::RollingWindow { limit: limit.min(65_536), per_ns, buckets: None },
        7 => {
            let buckets = Some(from.int_in_range(1..=60)?.min(per_ns));
            Algorithm::RollingWindow { limit, per_ns, buckets }
        }
        8 => Algorithm::Quota { limit, per_ns },
        9 => Algorithm::EvenSlots {
            limit: limit.min((per_ns / tick / 2).max(1)),
            per_ns: per_ns.max(2 * tick),
        },
        10 => Algorithm::MinInterval { every_ns: per_ns },
        _ => Algorithm::ErrorRate {
            threshold: *from.choose(&[1, 2_500, 5_000, 6_667, 10_000])?,
            per_ns,
            min_samples: from.int_in_range(1..=4)?,
            cool_down_ns: (per_ns / from.int_in_range(1..=8)? / tick).max(1) * tick,
        },
    };
    let gap = (per_ns / from.int_in_range(1..=40)? / tick).max(1) * tick;
    Ok(LimitSpec {
        algorithm,
        min_interval_ns: from.ratio(1, 4)?.then_some(gap),
        shadow: from.ratio(1, 6)?,
    })
}

fn units(from: &mut Unstructured<'_>) -> Result<u64> {
    match from.int_in_range(0..=3)? {
        0 | 1 => from.int_in_range(1..=12),
        2 => from.int_in_range(1..=100_000),
        _ => Ok(1_000_000_000),
    }
}

fn period(from: &mut Unstructured<'_>, tick: u64) -> Result<u64> {
    let per = match from.int_in_range(0..=6)? {
        0 | 1 => SECOND,
        2 => 60 * SECOND,
        3 => 1_000_003_000,
        4 => from.int_in_range(1..=50)? * tick,
        5 => from.int_in_range(1..=SECOND)?,
        _ => *from.choose(&[DAY, 365 * DAY])?,
    };
    Ok((per / tick).max(1) * tick)
}

/// A pause, mostly one at which decisions change.
fn step(from: &mut Unstructured<'_>, spec: &PolicySpec) -> Result<u64> {
    let per = spec.limits.first().map_or(SECOND, |limit| match limit.algorithm {
        Algorithm::LeakyBucket { every_ns, .. } | Algorithm::MinInterval { every_ns } => every_ns,
        Algorithm::Gcra { limit, per_ns, .. } => (per_ns / limit).max(1),
        Algorithm::FixedWindow { per_ns, .. }
        | Algorithm::SlidingWindow { per_ns, .. }
        | Algorithm::RollingWindow { per_ns, .. }
        | Algorithm::Quota { per_ns, .. }
        | Algorithm::EvenSlots { per_ns, .. }
        | Algorithm::ErrorRate { per_ns, .. } => per_ns,
        _ => SECOND,
    });
    Ok(match from.int_in_range(0..=7)? {
        0..=2 => 0,
        3 => 1,
        4 => per,
        5 => per.saturating_sub(1),
        6 => per / 2,
        _ => from.int_in_range(0..=per.saturating_mul(3).min(1 << 57))?,
    })
}

fn cost(from: &mut Unstructured<'_>) -> Result<u64> {
    match from.int_in_range(0..=5)? {
        0 => Ok(0),
        1 | 2 => Ok(1),
        3 => from.int_in_range(1..=12),
        4 => from.int_in_range(0..=100_001),
        _ => from.arbitrary(),
    }
}
