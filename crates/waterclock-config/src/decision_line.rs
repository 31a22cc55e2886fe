//! A decision as a line of JSON.

use std::borrow::Cow;
use std::time::Duration;

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use waterclock::{Answer, Cost, Decision, HeaderStyle, LimitDecision, LimitSet, Policy};

use super::limit_info::LimitInfo;

/// The fields, in an order that does not change.
#[derive(Serialize)]
pub struct DecisionLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    t_us: Option<u64>,
    key: Cow<'a, str>,
    /// A number, or a map where the policy counts several units.
    cost: &'a Cost,
    allowed: bool,
    granted: Cost,
    limit: Option<u64>,
    remaining: Option<u64>,
    /// `null`: never.
    retry_after_us: Option<u64>,
    /// `null`: full.
    next_unit_us: Option<u64>,
    reset_after_us: u64,
    refused_by: Names<'a>,
    #[serde(skip_serializing_if = "Names::is_empty")]
    shadow_refused_by: Names<'a>,
    /// When the same cost passes next. `null`: never.
    next_same_us: Option<u64>,
    /// Where refusals are counted: the limit minus all that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    counter: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<LimitLines<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_info: Option<LimitInfo>,
}

impl<'a> DecisionLine<'a> {
    /// A line without the time of an event.
    #[must_use]
    #[inline]
    pub fn new(
        policy: &'a Policy,
        key: impl Into<Cow<'a, str>>,
        cost: &'a Cost,
        answer: &Answer,
    ) -> DecisionLine<'a> {
        let decision = &answer.decision;
        DecisionLine {
            t_us: None,
            key: key.into(),
            cost,
            allowed: decision.is_allowed(),
            granted: cost.granted(decision.granted()),
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after_us: decision.retry_after().map(micros_up),
            next_unit_us: decision.next_unit().map(micros_up),
            reset_after_us: micros_up(decision.reset_after()),
            refused_by: Names { policy, set: decision.refused_by() },
            shadow_refused_by: Names { policy, set: decision.shadow_refused_by() },
            next_same_us: answer.next_same().map(micros_up),
            counter: decision.counter(),
            op: None,
            policy: None,
            source: None,
            limits: None,
            limit_info: None,
        }
    }

    /// The answer of a policy, under the name that callers know, for a key: with its source and each limit's own
    /// numbers.
    #[must_use]
    #[inline]
    pub fn in_full(
        name: &'a str,
        policy: &'a Policy,
        key: impl Into<Cow<'a, str>>,
        cost: &'a Cost,
        answer: &'a Answer,
    ) -> DecisionLine<'a> {
        DecisionLine {
            policy: Some(name),
            source: Some(answer.source.name()),
            limits: Some(LimitLines { policy, limits: &answer.limits }),
            ..DecisionLine::new(policy, key, cost, answer)
        }
    }

    /// With `limit_info`, where clients get legacy headers.
    #[must_use]
    #[inline]
    pub fn in_style(
        self,
        style: HeaderStyle,
        policy: &Policy,
        decision: &Decision,
    ) -> DecisionLine<'a> {
        let is_legacy = style == HeaderStyle::Legacy;
        let limit_info = is_legacy.then(|| LimitInfo::new(policy, decision));
        DecisionLine { limit_info, ..self }
    }

    /// As a line about an event at that time; `op` is named where the line is not about it.
    pub fn of_event(self, t_us: u64, op: Option<&'static str>) -> DecisionLine<'a> {
        DecisionLine { t_us: Some(t_us), op, ..self }
    }
}

/// The names of some limits of a policy.
struct Names<'a> {
    policy: &'a Policy,
    set: LimitSet,
}

impl Names<'_> {
    fn is_empty(&self) -> bool {
        self.set.is_empty()
    }
}

impl Serialize for Names<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_empty() {
            return serializer.serialize_seq(Some(0))?.end();
        }
        serializer.collect_seq(self.policy.names(self.set))
    }
}

/// Each limit's own numbers, in policy order.
struct LimitLines<'a> {
    policy: &'a Policy,
    limits: &'a [LimitDecision],
}

impl Serialize for LimitLines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let lines = self.policy.limits().iter().zip(self.limits);
        serializer.collect_seq(lines.map(|(limit, numbers)| LimitLine::new(limit.name(), numbers)))
    }
}

#[derive(Serialize)]
struct LimitLine<'a> {
    name: &'a str,
    allowed: bool,
    limit: Option<u64>,
    remaining: Option<u64>,
    retry_after_us: Option<u64>,
    next_unit_us: Option<u64>,
    reset_after_us: u64,
}

impl<'a> LimitLine<'a> {
    fn new(name: &'a str, decision: &LimitDecision) -> LimitLine<'a> {
        LimitLine {
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

/// Rounded up, so that waiting this long is long enough.
#[inline]
pub fn micros_up(duration: Duration) -> u64 {
    // Without a division of 128 bits, which a decision would make seven times.
    let seconds = duration.as_secs().checked_mul(1_000_000);
    let rest = u64::from(duration.subsec_nanos().div_ceil(1_000));
    seconds.and_then(|micros| micros.checked_add(rest)).unwrap_or(u64::MAX)
}
