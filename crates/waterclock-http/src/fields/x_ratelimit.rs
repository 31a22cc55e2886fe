//! The styles of `X-RateLimit-*` fields.

use std::cmp::Reverse;
use std::fmt::Write;
use std::sync::LazyLock;
use std::time::Duration;

use waterclock::{Clock, Limit, LimitDecision, MonotonicClock};

use super::{HeaderFields, StyledAnswer, longest_wait, millis_up, seconds_up, window_seconds};

const LIMIT: &str = "x-ratelimit-limit";
const REMAINING: &str = "x-ratelimit-remaining";
const RESET: &str = "x-ratelimit-reset";
const CLEAR: &str = "x-ratelimit-clear";
const USED: &str = "x-ratelimit-used";

/// The clock of `X-RateLimit-Reset` as an instant of Unix time.
static CLOCK: LazyLock<MonotonicClock> = LazyLock::new(MonotonicClock::default);

/// `X-RateLimit-Limit`, `-Remaining` and `-Reset` as in draft-polli-ratelimit-headers-03, which Envoy's
/// rate limit filter writes.
///
/// All three describe the limit with the least left. `Reset` is the time until that limit is full again:
/// the draft means the end of the window, Envoy sends just that, and clients expect the whole number then.
/// (A bucket has its next unit much sooner; a refusal's `Retry-After` says when, and takes precedence.)
pub(super) fn write_draft_03<'a>(
    answers: impl Iterator<Item = StyledAnswer<'a>>,
    fields: &mut HeaderFields,
) {
    let limits: Vec<(&Limit, &LimitDecision)> =
        answers.flat_map(|answer| answer.limits()).collect();
    let Some((tightest, decision)) = tightest(&limits) else { return };
    let Some(remaining) = decision.remaining else { return };
    if let Some(list) = limit_list(tightest, &limits) {
        fields.set(LIMIT, list);
    }
    fields.set(REMAINING, remaining.to_string());
    fields.set(RESET, seconds_up(decision.reset_after).to_string());
}

/// The limit with the least left and, of those with as little, the one that takes longest, because a client waits for it.
fn tightest<'a>(
    limits: &[(&'a Limit, &'a LimitDecision)],
) -> Option<(&'a Limit, &'a LimitDecision)> {
    let tightness = |(_, decision): &&(&Limit, &LimitDecision)| {
        (decision.remaining.unwrap_or(u64::MAX), Reverse(decision.reset_after))
    };
    limits.iter().min_by_key(tightness).copied()
}

/// `X-RateLimit-Limit`, `-Remaining`, `-Used` and `-Reset` of the limit with the least left, as GitHub sends them: the
/// reset is the instant of Unix time at which it is full again.
pub(super) fn write_github<'a>(
    answers: impl Iterator<Item = StyledAnswer<'a>>,
    fields: &mut HeaderFields,
) {
    let numbered = answers.flat_map(|answer| answer.limits());
    let numbered: Vec<_> = numbered.filter(|(limit, _)| limit.max_cost().is_some()).collect();
    let Some((limit, decision)) = tightest(&numbered) else { return };
    let (Some(most), Some(remaining)) = (limit.max_cost(), decision.remaining) else { return };
    let now = Duration::from_nanos(CLOCK.now().as_nanos());
    fields.set(LIMIT, most.to_string());
    fields.set(REMAINING, remaining.to_string());
    fields.set(USED, most.saturating_sub(remaining).to_string());
    fields.set(RESET, seconds_up(now.saturating_add(decision.reset_after)).to_string());
}

/// The tightest limit's number, then every limit with its window.
///
/// A minimum interval has no number. If it is the tightest, the least number of the other limits takes its
/// place; without others there is no list.
fn limit_list(tightest: &Limit, limits: &[(&Limit, &LimitDecision)]) -> Option<String> {
    let least = || limits.iter().filter_map(|(limit, _)| limit.max_cost()).min();
    let mut list = tightest.max_cost().or_else(least)?.to_string();
    for (limit, _) in limits {
        if let (Some(most), Some(window)) = (limit.max_cost(), window_seconds(limit)) {
            // Writing to a String cannot fail.
            let _ = write!(list, ", {most};w={window}");
        }
    }
    Some(list)
}

/// `X-RateLimit-Remaining`, `-Clear` and, when refused, `-Reset`, the wait, in seconds with three decimals.
pub(super) fn write_legacy<'a>(
    answers: impl Iterator<Item = StyledAnswer<'a>> + Clone,
    drawn: u32,
    fields: &mut HeaderFields,
) {
    let decisions = answers.clone().map(|answer| &answer.answer.decision);
    if let Some(remaining) = decisions.clone().filter_map(|decision| decision.remaining()).min() {
        fields.set(REMAINING, remaining.to_string());
    }
    if let Some(full_in) = decisions.map(|decision| decision.reset_after()).max() {
        fields.set(CLEAR, millis_up(full_in));
    }
    if let Some(wait) = longest_wait(answers, drawn) {
        fields.set(RESET, millis_up(wait));
    }
}
