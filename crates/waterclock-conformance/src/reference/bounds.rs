//! How much any window of length `D` can admit, at most: the published bounds, tried hard.

use super::testing::{Dice, policy};
use super::{Algorithm, Align, Verb};

/// The proven bound, for `1 <= d <= per`.
fn bound(algorithm: &Algorithm, d: u64) -> u64 {
    let inside = d - 1;
    match *algorithm {
        Algorithm::Gcra { limit, per_ns, capacity, .. } => capacity + limit * inside / per_ns,
        Algorithm::LeakyBucket { capacity, drip, every_ns, .. } => (capacity
            + drip * (inside / every_ns))
            .max(capacity - 1 + drip * inside.div_ceil(every_ns)),
        Algorithm::FixedWindow { limit, .. } if d > 1 => 2 * limit,
        Algorithm::SlidingWindow { limit, per_ns } => limit + limit * d.saturating_sub(2) / per_ns,
        Algorithm::Quota { limit, per_ns } => limit + (limit * inside).div_ceil(per_ns),
        Algorithm::FixedWindow { limit, .. }
        | Algorithm::RollingWindow { limit, .. }
        | Algorithm::Concurrency { limit, .. } => limit,
        Algorithm::EvenSlots { limit, per_ns } => inside * limit / per_ns + 2,
        Algorithm::MinInterval { every_ns } => inside / every_ns + 1,
        Algorithm::ErrorRate { .. } => u64::MAX,
    }
}

fn period(algorithm: &Algorithm) -> u64 {
    match *algorithm {
        Algorithm::LeakyBucket { every_ns, .. } | Algorithm::MinInterval { every_ns } => every_ns,
        Algorithm::Gcra { per_ns, .. }
        | Algorithm::ErrorRate { per_ns, .. }
        | Algorithm::FixedWindow { per_ns, .. }
        | Algorithm::SlidingWindow { per_ns, .. }
        | Algorithm::RollingWindow { per_ns, .. }
        | Algorithm::Quota { per_ns, .. }
        | Algorithm::EvenSlots { per_ns, .. }
        | Algorithm::Concurrency { lease_ns: per_ns, .. } => per_ns,
    }
}

fn one_event(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::EvenSlots { .. } | Algorithm::MinInterval { .. })
}

/// Idle, then greedy from some instant on: what comes near a bound.
fn admitted(algorithm: &Algorithm, dice: &mut Dice) -> Vec<(u64, u64)> {
    let mut model = policy(algorithm.clone());
    let (eager, mut log) = (dice.below(3) + 1, Vec::new());
    for now in dice.below(30)..60 {
        if dice.below(4) >= eager {
            continue;
        }
        let most = model.apply(now, Verb::Peek, 0).remaining.unwrap_or(1);
        let cost = if dice.coin() { most } else { dice.below(most + 1) };
        let granted = model.apply(now, Verb::Check, cost).granted;
        log.push((now, if one_event(algorithm) { granted.min(1) } else { granted }));
    }
    log
}

#[test]
fn no_window_admits_more_than_its_bound() {
    let mut dice = Dice::new(8);
    for _ in 0..20_000 {
        let algorithm = match dice.algorithm(false, 8, 16) {
            Algorithm::Gcra { limit, per_ns, capacity, .. } => {
                Algorithm::Gcra { limit, per_ns, capacity, overdraft: false }
            }
            Algorithm::LeakyBucket { capacity, drip, every_ns, .. } => {
                Algorithm::LeakyBucket { capacity, drip, every_ns, overdraft: false }
            }
            // A calendar's bound is about its shortest window, not about a nominal period.
            Algorithm::FixedWindow { limit, per_ns, align: Align::Calendar(_) } => {
                Algorithm::FixedWindow { limit, per_ns, align: Align::Epoch }
            }
            other => other,
        };
        let log = admitted(&algorithm, &mut dice);
        for d in 1..=period(&algorithm) {
            for &(start, _) in &log {
                let inside = log.iter().filter(|(at, _)| (start..start + d).contains(at));
                let total: u64 = inside.map(|(_, cost)| cost).sum();
                assert!(total <= bound(&algorithm, d), "{algorithm:?} admits {total} in {d}");
            }
        }
    }
}
