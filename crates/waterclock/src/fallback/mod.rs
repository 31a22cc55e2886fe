//! What answers in the place of a store elsewhere while that does not.

mod breaker;
mod local;
mod serving;

pub use breaker::Breaker;
pub use local::{Local, Unsettled};
pub use serving::{Lease, OnStoreError, Serving};
use waterclock_core::store::{Decide as _, Logs, View};
use waterclock_core::{Cost, LimitDecision, Policy, Timestamp};

use crate::store::{Answer, Source};

/// What of a cost there is room for, by the numbers of the limits that can refuse: where units differ, of each.
pub fn fitting(policy: &Policy, limits: &[LimitDecision], cost: &Cost) -> Cost {
    let room = |counted: &dyn Fn(&str) -> bool| {
        let live = policy.limits().iter().zip(limits).filter(|(limit, _)| !limit.is_shadow());
        let counted = live.filter(|(limit, _)| counted(limit.unit()));
        counted.filter_map(|(_, says)| says.remaining).min().unwrap_or(u64::MAX)
    };
    match cost.plain() {
        Some(n) => Cost::from(n.min(room(&|_| true))),
        None => cost.map(|unit, n| n.min(room(&|counted| counted == unit))),
    }
}

/// Admitted whatever the state is, which nobody knows: with the numbers of a fresh key.
pub fn wave_through(policy: &Policy, cost: &Cost) -> Answer {
    let policy = policy.clone().with_shadow(true);
    let (words, logs) = (vec![0; policy.words()], Logs::new());
    let (view, now) = (View::new(&words, &logs), Timestamp::ZERO);
    let verdict = policy.judge(view, now, cost);
    Answer {
        decision: policy.answer(view, now, cost, verdict),
        limits: policy.each(view, now, cost, verdict).collect(),
        source: Source::Policy,
    }
}
