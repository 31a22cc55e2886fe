//! Decisions as messages. Names, units and rounding are those of the JSON API.

use waterclock::{Cost, LimitDecision};
use waterclock_config::micros_up;

use super::super::proto::rate_limiter as proto;
use crate::engine::{Check, Reply};

/// A decision about a check.
pub(super) fn of_reply(check: &Check<'_>, reply: &Reply) -> proto::Decision {
    let (policy, answer) = (&reply.policy, &reply.answer);
    let decision = &answer.decision;
    let granted = cost(&check.cost.granted(decision.granted()));
    let names = |set| policy.names(set).map(str::to_owned).collect();
    let limits = policy.limits().iter().zip(&answer.limits);
    proto::Decision {
        allowed: decision.is_allowed(),
        granted: granted.cost,
        granted_costs: granted.costs,
        limit: decision.limit(),
        remaining: decision.remaining(),
        retry_after_us: decision.retry_after().map(micros_up),
        next_unit_us: decision.next_unit().map(micros_up),
        reset_after_us: micros_up(decision.reset_after()),
        refused_by: names(decision.refused_by()),
        shadow_refused_by: names(decision.shadow_refused_by()),
        next_same_us: answer.next_same().map(micros_up),
        counter: decision.counter(),
        source: answer.source.name().to_owned(),
        limits: limits.map(|(limit, numbers)| of_limit(limit.name(), numbers)).collect(),
        ..of_check(check)
    }
}

/// A check of which nothing is known but what was asked for.
fn of_check(check: &Check<'_>) -> proto::Decision {
    let asked = cost(&check.cost);
    proto::Decision {
        policy: check.policy.name().to_owned(),
        key: String::from_utf8_lossy(check.key.bytes()).into_owned(),
        cost: asked.cost,
        costs: asked.costs,
        ..proto::Decision::default()
    }
}

/// A check that has no decision.
pub(super) fn of_error(check: &Check<'_>, error: String) -> proto::Decision {
    proto::Decision { error, ..of_check(check) }
}

fn of_limit(name: &str, decision: &LimitDecision) -> proto::LimitDecision {
    proto::LimitDecision {
        name: name.to_owned(),
        allowed: decision.allowed,
        limit: decision.limit,
        remaining: decision.remaining,
        retry_after_us: decision.retry_after.map(micros_up),
        next_unit_us: decision.next_unit.map(micros_up),
        reset_after_us: micros_up(decision.reset_after),
    }
}

/// One number, or one for each unit.
pub(super) fn cost(cost: &Cost) -> proto::Cost {
    match cost.plain() {
        Some(units) => proto::Cost { cost: units, ..proto::Cost::default() },
        None => proto::Cost {
            costs: cost.units().map(|(unit, units)| (unit.to_owned(), units)).collect(),
            ..proto::Cost::default()
        },
    }
}
