//! Tests of the model itself: its numbers are checked by scanning instants one by one.

use super::testing::{Dice, SECOND, live, policy};
use super::{Algorithm, Align, Answer, LimitSpec, Mode, Model, PolicySpec, Verb};

const MODES: [Mode; 3] = [Mode::Binary, Mode::Partial, Mode::CountRefusals];

/// Longer than any wait among random limits with periods up to 13.
const HORIZON: u64 = 800;

fn overdraws(spec: &PolicySpec) -> bool {
    spec.limits.iter().filter(|limit| !limit.shadow).any(|limit| match limit.algorithm {
        Algorithm::Gcra { overdraft, .. } | Algorithm::LeakyBucket { overdraft, .. } => overdraft,
        _ => false,
    })
}

fn allows(model: &Model, now: u64, cost: u64) -> bool {
    model.clone().apply(now, Verb::Peek, cost).allowed
}

/// The first of the next instants at which `cost` would be allowed.
fn scan(model: &Model, now: u64, cost: u64) -> Option<u64> {
    (0..HORIZON).find(|d| allows(model, now + d, cost))
}

fn honest(model: &Model, now: u64, cost: u64, answer: &Answer, overdraws: bool) {
    if answer.allowed {
        assert_eq!(answer.retry_after_ns, Some(0));
    } else {
        assert_eq!(answer.retry_after_ns, scan(model, now, cost));
    }
    if overdraws {
        return;
    }
    if let Some(remaining) = answer.remaining {
        assert!(allows(model, now, remaining));
        assert!(!allows(model, now, remaining + 1));
    }
    match answer.remaining {
        Some(remaining) if answer.remaining != answer.limit => {
            assert_eq!(answer.next_unit_ns, scan(model, now, remaining + 1));
        }
        _ => assert_eq!(answer.next_unit_ns, None),
    }
}

/// From `reset_after` on, and not an instant earlier, the key behaves like a fresh one.
fn resets(model: &Model, spec: &PolicySpec, now: u64, reset: u64, dice: &mut Dice) {
    let fresh = || Model::new(spec.clone());
    if let Some(early) = reset.checked_sub(1) {
        let peek = |mut model: Model| model.apply(now + early, Verb::Peek, 1);
        assert_ne!(peek(model.clone()), peek(fresh()));
    }
    let (mut old, mut new, mut now) = (model.clone(), fresh(), now + reset);
    for _ in 0..4 {
        let (verb, cost) = (dice.verb(), dice.below(8));
        assert_eq!(old.apply(now, verb, cost), new.apply(now, verb, cost));
        now += dice.below(10);
    }
}

#[test]
fn every_number_is_what_scanning_finds() {
    let mut dice = Dice::new(1);
    for round in 0..1_500 {
        let spec = dice.policy(MODES[round % 3], 6, 12);
        let (mut model, mut now) = (Model::new(spec.clone()), dice.below(100));
        for _ in 0..12 {
            now += dice.below(8);
            let (verb, cost) = (dice.verb(), dice.below(8));
            let answer = model.apply(now, verb, cost);
            honest(&model, now, cost, &answer, overdraws(&spec));
            // The state of shadow limits does not count for the policy's reset.
            if !spec.limits.iter().any(|limit| limit.shadow) {
                resets(&model, &spec, now, answer.reset_after_ns, &mut dice);
            }
        }
    }
}

#[test]
fn retry_is_honourable_and_tight_at_real_scale() {
    let mut dice = Dice::new(2);
    for round in 0..3_000 {
        let spec = dice.policy(MODES[round % 3], 1_000, 100 * SECOND);
        let (mut model, mut now) = (Model::new(spec), 1_700_000_000 * SECOND);
        for _ in 0..24 {
            now += dice.below(20 * SECOND);
            let cost = dice.below(400);
            let answer = model.apply(now, Verb::Check, cost);
            let Some(retry) = answer.retry_after_ns.filter(|&d| d > 0 && d < u64::MAX) else {
                continue;
            };
            assert!(allows(&model, now + retry, cost));
            assert!(!allows(&model, now + retry - 1, cost));
        }
    }
}

#[test]
fn peeks_and_refusals_leave_no_trace() {
    let mut dice = Dice::new(3);
    for round in 0..6_000 {
        let mut spec = dice.policy(MODES[round % 2], 6, 12);
        // A shadow limit is charged by what the live ones refuse.
        spec.limits.iter_mut().for_each(|limit| limit.shadow = false);
        let (mut noisy, mut now) = (Model::new(spec.clone()), dice.below(50));
        let mut quiet = Model::new(spec);
        for _ in 0..30 {
            now += dice.below(6);
            let cost = dice.below(8);
            noisy.apply(now, Verb::Peek, dice.below(9));
            let answer = noisy.apply(now, Verb::Check, cost);
            if answer.granted > 0 {
                assert_eq!(answer, quiet.apply(now, Verb::Check, cost));
            }
        }
    }
}

#[test]
fn a_batch_equals_its_singles() {
    let mut dice = Dice::new(4);
    for _ in 0..6_000 {
        let algorithm = dice.algorithm(false, 6, 12);
        let one_event =
            matches!(algorithm, Algorithm::EvenSlots { .. } | Algorithm::MinInterval { .. });
        let spec = PolicySpec { mode: Mode::Binary, shadow: false, limits: vec![live(algorithm)] };
        if one_event || overdraws(&spec) {
            continue;
        }
        let (mut batch, mut now) = (Model::new(spec.clone()), dice.below(50));
        let mut singles = Model::new(spec);
        for _ in 0..20 {
            now += dice.below(6);
            let cost = dice.below(7);
            if batch.apply(now, Verb::Check, cost).allowed {
                assert!((0..cost).all(|_| singles.apply(now, Verb::Check, 1).allowed));
            }
            assert_eq!(batch.apply(now, Verb::Peek, 1), singles.apply(now, Verb::Peek, 1));
        }
    }
}

#[test]
fn adding_periods_to_all_times_changes_nothing() {
    let mut dice = Dice::new(6);
    for round in 0..6_000 {
        let mut spec = dice.policy(MODES[round % 3], 6, 12);
        let calendar = |limit: &LimitSpec| {
            matches!(&limit.algorithm, Algorithm::FixedWindow { align: Align::Calendar(_), .. })
        };
        spec.limits.retain(|limit| !calendar(limit));
        // A multiple of every period up to 13.
        let shift = 360_360 * dice.below(1 << 40);
        let (mut here, mut now) = (Model::new(spec.clone()), dice.below(50));
        let mut there = Model::new(spec);
        for _ in 0..20 {
            now += dice.below(6);
            let (verb, cost) = (dice.verb(), dice.below(8));
            assert_eq!(here.apply(now, verb, cost), there.apply(now + shift, verb, cost));
        }
    }
}

#[test]
fn a_clock_that_steps_back_stands_still() {
    let mut model = policy(Algorithm::MinInterval { every_ns: 100 });
    model.apply(1_000, Verb::Check, 1);
    assert_eq!(model.apply(10, Verb::Check, 1).retry_after_ns, Some(100));
}

#[test]
fn nothing_in_range_panics() {
    const CENTURY: u64 = 36_525 * 86_400 * SECOND;
    let mut dice = Dice::new(7);
    for round in 0..30_000 {
        let mut spec = dice.policy(MODES[round % 3], 1 << 53, CENTURY);
        spec.limits.truncate(2);
        spec.shadow = dice.below(5) == 0;
        let mut model = Model::new(spec);
        for _ in 0..6 {
            let (now, cost) = (dice.roll() >> (2 + dice.below(62)), dice.roll() >> dice.below(64));
            model.apply(now, dice.verb(), if dice.below(9) == 0 { u64::MAX } else { cost });
        }
    }
    for zero in [
        Algorithm::Gcra { limit: 0, per_ns: 0, capacity: 0, overdraft: true },
        Algorithm::LeakyBucket { capacity: 0, drip: 0, every_ns: 0, overdraft: false },
        Algorithm::FixedWindow { limit: 0, per_ns: 0, align: Align::Epoch },
        Algorithm::SlidingWindow { limit: 0, per_ns: 0 },
        Algorithm::RollingWindow { limit: 0, per_ns: 0, buckets: Some(0) },
        Algorithm::Quota { limit: 0, per_ns: 0 },
        Algorithm::EvenSlots { limit: 0, per_ns: 0 },
        Algorithm::MinInterval { every_ns: 0 },
    ] {
        policy(zero).apply(0, Verb::Check, 1);
    }
}

/// The published bounds: how much any window of length `D` can admit.
mod bounds {
    use super::super::testing::{Dice, policy};
    use super::super::{Algorithm, Align, Verb};

    /// The proven bound, for `1 <= d <= per`.
    fn bound(algorithm: &Algorithm, d: u64) -> u64 {
        let inside = d - 1;
        match *algorithm {
            Algorithm::Gcra { limit, per_ns, capacity, .. } => capacity + limit * inside / per_ns,
            Algorithm::LeakyBucket { capacity, drip, every_ns, .. } => (capacity
                + drip * (inside / every_ns))
                .max(capacity - 1 + drip * inside.div_ceil(every_ns)),
            Algorithm::FixedWindow { limit, .. } if d > 1 => 2 * limit,
            Algorithm::SlidingWindow { limit, per_ns } => {
                limit + limit * d.saturating_sub(2) / per_ns
            }
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
            Algorithm::LeakyBucket { every_ns, .. } | Algorithm::MinInterval { every_ns } => {
                every_ns
            }
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

    /// Idle, then greedy from some instant on: traffic that comes close to a bound.
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
}
