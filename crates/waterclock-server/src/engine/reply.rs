//! What the engine says to one ask.

use std::sync::Arc;

use waterclock::fallback::wave_through;
use waterclock::{Answer, Cost, Decision, Policy, Source};
use waterclock_core::{Logs, Timestamp, View};

/// How a decision is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Admitted, at least in part.
    Allow,
    /// Refused.
    Deny,
    /// Admitted, though a shadow limit would have refused.
    ShadowDeny,
    /// No decision.
    Error,
}

/// The answer, with the policy that gave it.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The policy whose numbers decided.
    pub policy: Arc<Policy>,
    /// What it said.
    pub answer: Answer,
}

impl Reply {
    pub(super) fn new(policy: Arc<Policy>, answer: Answer) -> Reply {
        Reply { policy, answer }
    }

    /// Always refused, and no wait helps.
    pub(super) fn blocked(policy: Arc<Policy>, cost: &Cost) -> Reply {
        let answer = blocked(&policy, cost);
        Reply { policy, answer }
    }

    /// Always admitted, and nothing is charged.
    pub(super) fn exempt(policy: Arc<Policy>, cost: &Cost) -> Reply {
        let answer = exempt(&policy, cost);
        Reply { policy, answer }
    }

    /// Admitted whatever the policy has decided, which is told beside.
    pub(super) fn in_shadow(policy: &Policy, mut answer: Answer, cost: &Cost) -> Reply {
        answer.decision = answer.decision.in_shadow(cost);
        Reply { policy: Arc::new(policy.clone().with_shadow(true)), answer }
    }

    /// Admitted in shadow, without an answer from the store.
    pub(super) fn unwatched(policy: &Policy, cost: &Cost) -> Reply {
        let answer = wave_through(policy, cost);
        Reply { policy: Arc::new(policy.clone().with_shadow(true)), answer }
    }

    /// What a policy without limits says, which takes no store.
    pub(super) fn unlimited(policy: Arc<Policy>, cost: &Cost) -> Reply {
        let answer = of_fresh_key(&policy, cost);
        Reply { policy, answer }
    }

    /// Nothing was charged, because another key of the same check is blocked.
    pub(super) fn given_up(policy: Arc<Policy>, mut answer: Answer) -> Reply {
        answer.decision = answer.decision.standing_back(None);
        Reply { policy, answer }
    }

    /// A partial grant is no refusal.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.policy.refuses(&self.answer.decision)
    }

    /// How it is counted.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(&self.policy, &self.answer.decision)
    }
}

pub(crate) fn outcome(policy: &Policy, decision: &Decision) -> Outcome {
    if policy.refuses(decision) {
        Outcome::Deny
    } else if decision.shadow_refused_by().is_empty() {
        Outcome::Allow
    } else {
        Outcome::ShadowDeny
    }
}

/// Refused, and no wait helps. Nothing is left, of any limit: else numbers would promise what is not given.
pub(super) fn blocked(policy: &Policy, cost: &Cost) -> Answer {
    let mut answer = of_fresh_key(policy, cost);
    answer.decision = answer.decision.shut_out();
    for limit in &mut answer.limits {
        limit.remaining = Some(0);
    }
    answer
}

/// Admitted, and nothing is charged.
pub(super) fn exempt(policy: &Policy, cost: &Cost) -> Answer {
    of_fresh_key(&policy.clone().with_shadow(true), cost)
}

fn of_fresh_key(policy: &Policy, cost: &Cost) -> Answer {
    let (words, logs) = (vec![0; policy.words()], Logs::new());
    let (view, now) = (View::new(&words, &logs), Timestamp::ZERO);
    let verdict = policy.judge(view, now, cost);
    Answer {
        decision: policy.answer(view, now, cost, verdict),
        limits: policy.each(view, now, cost, verdict).collect(),
        source: Source::Policy,
    }
}
