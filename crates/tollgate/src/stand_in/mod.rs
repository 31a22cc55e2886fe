//! What answers in the place of a store elsewhere while that does not.

mod breaker;
mod local;
mod share;

pub use breaker::Breaker;
pub use local::{Local, Unsettled};
use tollgate_core::{Logs, Policy, Timestamp, View};

use crate::store::{Answer, Source};

/// What to do while the store does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// Serve this node's share from memory.
    #[default]
    Local,
    /// Admit everything.
    Allow,
    /// Admit nothing: the check fails.
    Deny,
}

/// Admitted whatever the state is, which nobody knows: with the numbers of a fresh key.
pub fn wave_through(policy: &Policy, cost: u64) -> Answer {
    let policy = policy.clone().shadow(true);
    let (words, logs) = (vec![0; policy.words()], Logs::new());
    let (view, now) = (View::new(&words, &logs), Timestamp::ZERO);
    let verdict = policy.judge(view, now, cost);
    Answer {
        decision: policy.answer(view, now, cost, verdict),
        limits: policy.each(view, now, cost, verdict).collect(),
        source: Source::Policy,
    }
}
