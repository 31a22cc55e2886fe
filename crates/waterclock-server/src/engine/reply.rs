//! What the engine answers to one check.

use std::sync::Arc;

use waterclock::{Answer, Cost, Decision, Policy};

/// How a decision is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Allowed, at least in part.
    Allow,
    /// Refused.
    Deny,
    /// Allowed, though a shadow limit would have refused.
    ShadowDeny,
    /// No decision.
    Error,
}

impl Outcome {
    #[inline]
    pub(super) fn of(policy: &Policy, decision: &Decision) -> Outcome {
        if policy.refuses(decision) {
            Outcome::Deny
        } else if decision.shadow_refused_by().is_empty() {
            Outcome::Allow
        } else {
            Outcome::ShadowDeny
        }
    }
}

/// The answer, with the policy that gave it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reply {
    /// The policy whose limits decided.
    pub policy: Arc<Policy>,
    /// What it answered.
    pub answer: Answer,
    /// Whether callers in line for the key refuse it, and no limit.
    pub is_held_up: bool,
}

impl Reply {
    pub(super) fn new(policy: Arc<Policy>, answer: Answer) -> Reply {
        Reply { policy, answer, is_held_up: false }
    }

    /// Allowed whatever the policy has decided, which is reported beside.
    pub(super) fn in_shadow(policy: &Policy, mut answer: Answer, cost: &Cost) -> Reply {
        answer.decision = answer.decision.in_shadow(cost);
        Reply::new(Arc::new(policy.clone().with_shadow(true)), answer)
    }

    /// Allowed in shadow, without an answer from the store.
    pub(super) fn unanswered_shadow(policy: &Policy, cost: &Cost) -> Reply {
        let answer = Answer::exempt(policy, cost);
        Reply::new(Arc::new(policy.clone().with_shadow(true)), answer)
    }

    /// Not charged, because another key of the same call is blocked.
    pub(super) fn withheld(policy: Arc<Policy>, mut answer: Answer) -> Reply {
        answer.decision = answer.decision.refused(None);
        Reply::new(policy, answer)
    }

    /// Whether it refuses. A partial grant does not.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.policy.refuses(&self.answer.decision)
    }

    /// How it is counted.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::of(&self.policy, &self.answer.decision)
    }
}
