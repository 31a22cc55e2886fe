//! What each descriptor is told.

use std::time::Duration;

use waterclock::{LimitDecision, Source};

use super::decide::{Decided, Outcome};
use super::proto::{Code, DescriptorStatus, RateLimit, Unit};
use super::unit;
use waterclock_config::LimitSpec;

/// The status of one descriptor.
pub(super) fn status(outcome: &Outcome<'_>) -> DescriptorStatus {
    match outcome {
        Outcome::Free => ok(),
        Outcome::Refused(rule) => DescriptorStatus {
            code: Code::OverLimit.into(),
            current_limit: Some(RateLimit {
                requests_per_unit: 0,
                unit: Unit::Unknown.into(),
                name: rule.name().unwrap_or_default().to_owned(),
            }),
            ..ok()
        },
        Outcome::Decided(decided) => of_decided(decided),
    }
}

fn ok() -> DescriptorStatus {
    DescriptorStatus {
        code: Code::Ok.into(),
        current_limit: None,
        limit_remaining: 0,
        duration_until_reset: None,
    }
}

fn of_decided(decided: &Decided<'_>) -> DescriptorStatus {
    let (policy, answer) = (&decided.reply.policy, &decided.reply.answer);
    let refused = decided.has_refused();
    // Who is in shadow, exempt, or admitted because nobody could be asked, is not limited.
    let is_free = policy.is_shadow() || (answer.source == Source::Policy && !refused);
    let Some(binding) = binding(decided).filter(|_| !is_free) else {
        let code = if refused { Code::OverLimit } else { Code::Ok };
        return DescriptorStatus { code: code.into(), ..ok() };
    };
    let blocked = refused && answer.source == Source::Policy;
    let limit = &answer.limits[binding];
    DescriptorStatus {
        code: if refused { Code::OverLimit } else { Code::Ok }.into(),
        current_limit: Some(current_limit(decided, binding)),
        limit_remaining: if blocked { 0 } else { clamped(limit.remaining.unwrap_or(u64::MAX)) },
        duration_until_reset: (!blocked).then(|| whole_seconds(limit.reset_after)),
    }
}

/// The limit that a client has to do with: the one that makes it wait longest if it refused, else the
/// one with the least left.
fn binding(decided: &Decided<'_>) -> Option<usize> {
    let (policy, answer) = (&decided.reply.policy, &decided.reply.answer);
    let both = answer.limits.len().min(policy.limits().len());
    let wait = |at: &usize| answer.limits[*at].retry_after.unwrap_or(Duration::MAX);
    let refusing = answer
        .decision
        .refused_by()
        .iter()
        // A reload may come between the question and the answer: then the two differ in length.
        .filter(|at| *at < both && decided.has_refused());
    let left = |at: &usize| answer.limits[*at].remaining.unwrap_or(u64::MAX);
    let live = (0..both).filter(|at| !policy.limits()[*at].is_shadow());
    refusing.max_by_key(wait).or_else(|| live.min_by_key(left))
}

fn current_limit(decided: &Decided<'_>, at: usize) -> RateLimit {
    let (requests, unit) = pace(decided, at);
    let name = decided.rule.name().map_or_else(
        || format!("{}.{}", decided.served.name(), decided.reply.policy.limits()[at].name()),
        str::to_owned,
    );
    RateLimit { requests_per_unit: clamped(requests), unit: unit.into(), name }
}

/// The numbers as they were said: with the call, for the tier, for the key, or for everybody.
fn pace(decided: &Decided<'_>, at: usize) -> (u64, Unit) {
    let (spec, policy) = (decided.served.config(), &decided.reply.policy);
    let named = |limits: &[LimitSpec]| {
        limits.iter().find(|limit| limit.name == policy.limits()[at].name()).map(unit::pace)
    };
    let of_tier = spec.tiers.iter().find(|tier| tier.built.name() == policy.name());
    let said = match of_tier {
        Some(tier) => Some(&tier.limits),
        None => (policy.name() == spec.name).then_some(&spec.limits),
    };
    if let Some(limits) = said {
        if let Some(pace) = named(limits) {
            return pace;
        }
    } else if let Some(numbers) = decided.numbers {
        return (numbers.limit, unit::unit(numbers.per));
    }
    // A limit of one key only: what it holds at most, over a time that is not told.
    let most = decided.reply.answer.limits.get(at).and_then(|limit: &LimitDecision| limit.limit);
    (most.unwrap_or(u64::MAX), Unit::Unknown)
}

fn clamped(units: u64) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// Envoy shows whole seconds and drops the rest, so the rest counts as one more.
fn whole_seconds(duration: Duration) -> prost_types::Duration {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    prost_types::Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}
