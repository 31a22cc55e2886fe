//! What the engine answers to one check.

use std::borrow::Cow;
use std::sync::Arc;

use waterclock::{Answer, Cost, Decision, Policy};
use waterclock_config::DecisionLine;
use waterclock_http::StyledAnswer;

use super::{ActivePolicy, Check};

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
    /// The policy is that of the charge, unless the store says that other limits applied.
    pub(super) fn new(policy: Arc<Policy>, answer: Answer) -> Reply {
        let applied = answer.applied.as_ref().map(|applied| Arc::clone(&applied.policy));
        Reply { policy: applied.unwrap_or(policy), answer, is_held_up: false }
    }

    /// Allowed whatever the policy has decided, which is reported beside. An override of the key is enforced all the same.
    pub(super) fn in_shadow(policy: &Arc<Policy>, answer: Answer, cost: &Cost) -> Reply {
        let is_override = answer.applied.as_ref().is_some_and(|applied| applied.is_override);
        let mut reply = Reply::new(Arc::clone(policy), answer);
        if !is_override {
            reply.policy = Arc::new(Policy::clone(&reply.policy).with_shadow(true));
            reply.answer = reply.answer.in_shadow(cost);
        }
        reply
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

    /// The decision as every protocol writes it in JSON.
    #[must_use]
    #[inline]
    pub fn line<'a>(&'a self, check: &'a Check<'_>) -> DecisionLine<'a> {
        let key = check.key.bytes();
        // Mostly it is text, which is told faster than by looking for what is not.
        let key = str::from_utf8(key).map_or_else(|_| String::from_utf8_lossy(key), Cow::Borrowed);
        DecisionLine::in_full(check.policy.name(), &self.policy, key, &check.cost, &self.answer)
            .in_style(check.policy.headers(), &self.policy, &self.answer.decision)
    }

    /// The answer in the header style of the policy that was asked, for response header fields.
    #[must_use]
    pub fn styled<'a>(&'a self, asked: &'a ActivePolicy) -> StyledAnswer<'a> {
        let (style, name) = (asked.headers(), asked.name());
        let jitter = asked.jitter();
        StyledAnswer { style, name, policy: &self.policy, answer: &self.answer, jitter }
    }

    /// How it is counted.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::of(&self.policy, &self.answer.decision)
    }
}
