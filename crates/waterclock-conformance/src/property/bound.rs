//! P13: no window admits more than the published bound.

use super::PropertyResult;
use crate::case::{Case, Event};
use crate::family::period_of;
use crate::reference::{Algorithm, Align, Answer, Mode, Verb};
use crate::subject::Subject;

/// In any half-open window of length D ≤ P the admitted cost stays within the published bound.
pub(super) fn stays_within<S: Subject>(subject: &S, case: &Case, _: &[Answer]) -> PropertyResult {
    let [limit] = &case.spec.limits[..] else { return Ok(false) };
    // A breaker bounds nothing while it is closed.
    if case.spec.shadow || matches!(limit.algorithm, Algorithm::ErrorRate { .. }) {
        return Ok(false);
    }
    // Units given back may be used again, so refunds and resets are left out. Debits admit nothing.
    let trace: Vec<Event> = case
        .trace
        .iter()
        .filter(|event| matches!(event.verb, Verb::Check | Verb::Peek | Verb::Debit))
        .copied()
        .collect();
    let answers = subject.run(&case.spec, &trace, false);
    let per_ns = shortest_window(&limit.algorithm);
    let length = if case.dice.is_multiple_of(2) { per_ns } else { case.dice % per_ns + 1 };
    let largest = trace.iter().map(|event| event.cost).max().unwrap_or(0);
    let bound = bound(&limit.algorithm, length, largest);
    for (i, first) in trace.iter().enumerate() {
        let inside = trace.iter().zip(&answers).skip(i);
        let inside = inside.take_while(|(event, _)| event.at_ns < first.at_ns + length);
        let admitted: u128 = inside
            .filter(|(event, answer)| event.verb == Verb::Check && is_charged(case, answer))
            .map(|(_, answer)| admitted(&limit.algorithm, answer.granted))
            .sum();
        if admitted > bound {
            return Err(format!("{admitted} admitted in {length} ns from call {i}, bound {bound}"));
        }
    }
    Ok(true)
}

fn is_charged(case: &Case, answer: &Answer) -> bool {
    match case.spec.mode {
        // A recorded refusal is not an admission.
        Mode::CountRefusals => answer.allowed,
        _ => answer.granted > 0,
    }
}

/// The admitted units; 1 for algorithms that count a batch as one event.
pub(super) fn admitted(algorithm: &Algorithm, granted: u64) -> u128 {
    match algorithm {
        Algorithm::EvenSlots { .. }
        | Algorithm::MinInterval { .. }
        | Algorithm::ErrorRate { .. } => u128::from(granted.min(1)),
        _ => granted.into(),
    }
}

pub(super) fn shortest_window(algorithm: &Algorithm) -> u64 {
    match algorithm {
        Algorithm::FixedWindow { align: Align::Calendar(edges), .. } => {
            edges.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(1)
        }
        other => period_of(other),
    }
}

pub(super) fn bound(algorithm: &Algorithm, length: u64, largest: u64) -> u128 {
    let wide = u128::from;
    let overdraft = |yes: bool| if yes { wide(largest.saturating_sub(1)) } else { 0 };
    let length = wide(length);
    match *algorithm {
        Algorithm::Gcra { limit, per_ns, capacity, overdraft: debt } => {
            wide(capacity) + wide(limit) * length / wide(per_ns) + overdraft(debt)
        }
        Algorithm::LeakyBucket { capacity, drip, every_ns, overdraft: debt } => {
            wide(capacity) + wide(drip) * length.div_ceil(wide(every_ns)) + overdraft(debt)
        }
        Algorithm::FixedWindow { limit, .. } => 2 * wide(limit),
        Algorithm::SlidingWindow { limit, .. } => 2 * wide(limit) - 1,
        Algorithm::RollingWindow { limit, .. } | Algorithm::Concurrency { limit, .. } => {
            limit.into()
        }
        Algorithm::Quota { limit, per_ns } => {
            wide(limit) + (wide(limit) * length).div_ceil(wide(per_ns))
        }
        Algorithm::EvenSlots { limit, per_ns } => {
            (2 * wide(limit) * length + wide(per_ns)).div_ceil(2 * wide(per_ns))
        }
        Algorithm::ErrorRate { .. } => u128::MAX,
        Algorithm::MinInterval { every_ns } => length.div_ceil(wide(every_ns)),
    }
}
