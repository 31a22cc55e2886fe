//! A decision with where it comes from and each limit's own numbers, as JSON.

use serde::Serialize;
use tollgate::{Answer, LimitDecision, Policy};

use crate::decision_line::{DecisionLine, micros_up};

/// The decision, where it comes from, and each limit's own numbers.
#[derive(Serialize)]
pub struct FullAnswer<'a> {
    #[serde(flatten)]
    answer: DecisionLine<'a>,
    policy: &'a str,
    source: &'static str,
    limits: Vec<LimitAnswer<'a>>,
}

impl<'a> FullAnswer<'a> {
    /// What a policy answered about a key.
    #[must_use]
    pub fn new(policy: &'a Policy, key: &'a str, cost: u64, answer: &Answer) -> FullAnswer<'a> {
        FullAnswer::named(policy.name(), policy, key, cost, answer)
    }

    /// The same under the name that callers know the policy by.
    pub(crate) fn named(
        name: &'a str,
        policy: &'a Policy,
        key: &'a str,
        cost: u64,
        answer: &Answer,
    ) -> FullAnswer<'a> {
        let names = policy.limits().iter().map(|limit| limit.name());
        FullAnswer {
            answer: DecisionLine::new(policy, key, cost, &answer.decision),
            policy: name,
            source: answer.source.name(),
            limits: names
                .zip(&answer.limits)
                .map(|(name, limit)| LimitAnswer::new(name, limit))
                .collect(),
        }
    }
}

#[derive(Serialize)]
struct LimitAnswer<'a> {
    name: &'a str,
    allowed: bool,
    limit: Option<u64>,
    remaining: Option<u64>,
    retry_after_us: Option<u64>,
    next_unit_us: Option<u64>,
    reset_after_us: u64,
}

impl<'a> LimitAnswer<'a> {
    fn new(name: &'a str, decision: &LimitDecision) -> LimitAnswer<'a> {
        LimitAnswer {
            name,
            allowed: decision.allowed,
            limit: decision.limit,
            remaining: decision.remaining,
            retry_after_us: decision.retry_after.map(micros_up),
            next_unit_us: decision.next_unit.map(micros_up),
            reset_after_us: micros_up(decision.reset_after),
        }
    }
}
