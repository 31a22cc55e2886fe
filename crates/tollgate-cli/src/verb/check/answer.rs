//! An answer as people and as scripts read it.

use serde::Serialize;
use tollgate::{Answer, Decision, LimitDecision, Policy};

use tollgate_server::config::Micros;
use tollgate_server::decision_line::{DecisionLine, micros_up};

pub(super) fn sentence(policy: &Policy, decision: &Decision) -> String {
    let shown = |duration| Micros(micros_up(duration));
    if decision.is_allowed() {
        let left = decision
            .remaining()
            .map_or_else(String::new, |remaining| format!("; {remaining} left"));
        return format!("allowed{left}; as fresh again in {}", shown(decision.reset_after()));
    }
    let retry = match decision.retry_after() {
        Some(wait) => format!("retry in {}", shown(wait)),
        None => "it will never pass: the cost is above the limit".to_owned(),
    };
    if decision.refused_by().is_empty() {
        return format!("allowed in part: {} granted; for all of it, {retry}", decision.granted());
    }
    let names: Vec<&str> = policy.names(decision.refused_by()).collect();
    format!("refused by {}; {retry}", names.join(" and "))
}

/// The decision, where it comes from, and each limit's own numbers.
#[derive(Serialize)]
pub(super) struct FullAnswer<'a> {
    #[serde(flatten)]
    answer: DecisionLine<'a>,
    policy: &'a str,
    source: &'static str,
    limits: Vec<LimitAnswer<'a>>,
}

impl<'a> FullAnswer<'a> {
    pub(super) fn new(
        policy: &'a Policy,
        key: &'a str,
        cost: u64,
        answer: &Answer,
    ) -> FullAnswer<'a> {
        let names = policy.limits().iter().map(|limit| limit.name());
        FullAnswer {
            answer: DecisionLine::new(policy, key, cost, &answer.decision),
            policy: policy.name(),
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
