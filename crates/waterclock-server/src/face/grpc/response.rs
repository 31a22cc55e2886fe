//! The response: a status for each descriptor, and header fields.

use std::time::Duration;

use waterclock::{CalendarUnit, Limit, LimitDecision, Source, Timestamp};
use waterclock_config::{ReferenceConfig, RuleCharge};
use waterclock_http::{HeaderFields, StyledAnswer};

use super::descriptors::{Decided, Outcome};
use super::proto::{Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, Unit};
use crate::reference::seconds;

const DAY: u64 = 86_400;

/// The response without its metadata. `now` is the time by which windows are aligned.
pub(super) fn response(
    outcomes: &[Outcome<'_>],
    now: Timestamp,
    reference: &ReferenceConfig,
) -> RateLimitResponse {
    let statuses: Vec<_> = outcomes.iter().map(|outcome| status(outcome, now)).collect();
    let refused = !reference.shadow && is_refused(outcomes, &statuses, reference.quota);
    let mut fields = headers(outcomes);
    if let Some(names) = &reference.headers {
        fields.extend(reference_fields(names, &statuses));
    }
    RateLimitResponse {
        overall_code: if refused { Code::OverLimit } else { Code::Ok }.into(),
        statuses,
        response_headers_to_add: fields,
        request_headers_to_add: Vec::new(),
        raw_body: Vec::new(),
        dynamic_metadata: None,
    }
}

/// One limit that is over refuses the request. Of those in quota mode, all must be.
fn is_refused(
    outcomes: &[Outcome<'_>],
    statuses: &[DescriptorStatus],
    all_are_quotas: bool,
) -> bool {
    let is_quota = |outcome: &Outcome<'_>| {
        let rule = match outcome {
            Outcome::Unlimited => return false,
            Outcome::Refused(rule) => rule,
            Outcome::Decided(decided) => decided.rule,
        };
        rule.reference().is_some_and(|terms| terms.quota || all_are_quotas)
    };
    let (mut quotas, mut over) = (0, 0);
    for (outcome, status) in outcomes.iter().zip(statuses) {
        let is_over = status.code() == Code::OverLimit;
        if is_quota(outcome) {
            quotas += 1;
            over += u32::from(is_over);
        } else if is_over {
            return true;
        }
    }
    quotas > 0 && over == quotas
}

/// The header fields of the reference service, about the limit with the least left.
fn reference_fields(names: &[String; 3], statuses: &[DescriptorStatus]) -> Vec<HeaderValue> {
    let limited =
        statuses.iter().filter_map(|status| Some((status, status.current_limit.as_ref()?)));
    let Some((status, limit)) = limited.min_by_key(|(status, _)| status.limit_remaining) else {
        return Vec::new();
    };
    let requests = limit.requests_per_unit;
    let unit = crate::reference::Unit::try_from(limit.unit).unwrap_or_default();
    let window = seconds(unit).map_or(String::new(), |seconds| format!(", {requests};w={seconds}"));
    let reset = status.duration_until_reset.as_ref().map_or(0, |reset| reset.seconds);
    let values =
        [format!("{requests}{window}"), status.limit_remaining.to_string(), reset.to_string()];
    let field = |(key, value): (&String, String)| HeaderValue {
        key: key.clone(),
        value,
        raw_value: Vec::new(),
    };
    names.iter().zip(values).map(field).collect()
}

/// The answer to a request that is too large to be decided: refused, because proxies admit on errors.
pub(super) fn refusal() -> RateLimitResponse {
    RateLimitResponse { overall_code: Code::OverLimit.into(), ..RateLimitResponse::default() }
}

/// The status of one descriptor.
fn status(outcome: &Outcome<'_>, now: Timestamp) -> DescriptorStatus {
    match outcome {
        Outcome::Unlimited => ok(),
        Outcome::Refused(rule) => DescriptorStatus {
            code: if rule.is_shadow() { Code::Ok } else { Code::OverLimit }.into(),
            current_limit: Some(RateLimit {
                requests_per_unit: 0,
                // Both enums have the same numbers.
                unit: rule.reference().map_or(Unit::Unknown.into(), |terms| terms.unit.into()),
                name: rule.name().unwrap_or_default().to_owned(),
            }),
            duration_until_reset: rule.reference().and_then(|terms| {
                let period = Duration::from_secs(seconds(terms.unit)?);
                Some(whole_seconds(until_window_ends(period, now)))
            }),
            ..ok()
        },
        Outcome::Decided(decided) => status_of(decided, now),
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

fn status_of(decided: &Decided<'_>, now: Timestamp) -> DescriptorStatus {
    let (policy, answer) = (&decided.reply.policy, &decided.reply.answer);
    let refused = decided.has_refused();
    // The reference service shows the numbers of a limit in shadow; clients of others must not see them.
    let is_hidden = policy.is_shadow() && !is_of_reference(decided);
    // In shadow, exempt, or admitted because the store failed: no limit applies.
    let is_free = is_hidden || (answer.source == Source::Policy && !refused);
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
        duration_until_reset: (!blocked).then(|| {
            let fresh = limit.reset_after.is_zero() && is_of_reference(decided);
            let window = policy.limits()[binding].period().filter(|_| fresh);
            whole_seconds(window.map_or(limit.reset_after, |period| until_window_ends(period, now)))
        }),
    }
}

/// Whether the descriptor is answered as the reference service answers it.
fn is_of_reference(decided: &Decided<'_>) -> bool {
    decided.rule.charge == RuleCharge::Count || decided.rule.reference().is_some()
}

/// For a key with nothing used: the reference service tells when the window of the clock ends all the same.
fn until_window_ends(period: Duration, now: Timestamp) -> Duration {
    let (period, now) = (period.as_nanos().max(1), u128::from(now.as_nanos()));
    Duration::from_nanos(u64::try_from(period - now % period).unwrap_or(u64::MAX))
}

/// The limit that binds: the refusing one with the longest wait, else the one with the least left.
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
    let is_asked = |limit: &Limit| !limit.is_shadow() && decided.rule.is_of(policy, limit);
    let live = (0..both).filter(|at| is_asked(&policy.limits()[*at]));
    refusing.max_by_key(wait).or_else(|| live.min_by_key(left))
}

fn current_limit(decided: &Decided<'_>, at: usize) -> RateLimit {
    let (requests, unit) = pace(decided, at);
    let name = match decided.rule.name() {
        Some(name) => name.to_owned(),
        None if is_of_reference(decided) => String::new(),
        None => {
            let limit = decided.reply.policy.limits()[at].name();
            format!("{}.{limit}", decided.policy.name())
        }
    };
    RateLimit { requests_per_unit: clamped(requests), unit: unit.into(), name }
}

/// The numbers as configured: of the call, the tier or the policy.
fn pace(decided: &Decided<'_>, at: usize) -> (u64, Unit) {
    let (config, policy) = (decided.policy.config(), &decided.reply.policy);
    let is_tier = |name: &str| config.tiers.iter().any(|tier| tier.policy.name() == name);
    if policy.name() == config.name() || is_tier(policy.name()) {
        return pace_of(&policy.limits()[at]);
    }
    if let Some(rate) = decided.rate {
        return (rate.limit, unit_of(rate.per));
    }
    // A key's own limit: its capacity, without a period.
    let most = decided.reply.answer.limits.get(at).and_then(|limit: &LimitDecision| limit.limit);
    (most.unwrap_or(u64::MAX), Unit::Unknown)
}

fn clamped(units: u64) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}

/// Rounded up, because Envoy drops fractions of a second.
fn whole_seconds(duration: Duration) -> prost_types::Duration {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    prost_types::Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}

/// The unit that is exactly this long.
fn unit_of(period: Duration) -> Unit {
    if period.subsec_nanos() != 0 {
        return Unit::Unknown;
    }
    match period.as_secs() {
        1 => Unit::Second,
        60 => Unit::Minute,
        3_600 => Unit::Hour,
        DAY => Unit::Day,
        seconds if seconds == 7 * DAY => Unit::Week,
        seconds if seconds == 30 * DAY => Unit::Month,
        seconds if seconds == 365 * DAY => Unit::Year,
        _ => Unit::Unknown,
    }
}

/// A limit as so many requests per unit.
fn pace_of(limit: &Limit) -> (u64, Unit) {
    if limit.threshold().is_some() {
        return (0, Unit::Unknown);
    }
    let units = limit.limit().or(limit.drip()).unwrap_or(1);
    let calendar = limit.calendar().and_then(|calendar| calendar.unit());
    let unit = match calendar {
        Some(CalendarUnit::Day) => Unit::Day,
        Some(CalendarUnit::Week) => Unit::Week,
        Some(CalendarUnit::Month) => Unit::Month,
        Some(CalendarUnit::Year) => Unit::Year,
        None => limit.period().or(limit.every()).map_or(Unit::Unknown, unit_of),
    };
    (units, unit)
}

/// One `Retry-After` for all, and each policy's own fields.
fn headers(outcomes: &[Outcome<'_>]) -> Vec<HeaderValue> {
    let styled: Vec<StyledAnswer<'_>> = outcomes
        .iter()
        .filter_map(|outcome| {
            let Outcome::Decided(decided) = outcome else { return None };
            if decided.never_refuses {
                return None;
            }
            Some(decided.reply.styled(decided.policy))
        })
        .collect();
    let header = |(key, value): (&'static str, String)| HeaderValue {
        key: key.to_owned(),
        value,
        raw_value: Vec::new(),
    };
    HeaderFields::for_check(styled).into_iter().map(header).collect()
}
