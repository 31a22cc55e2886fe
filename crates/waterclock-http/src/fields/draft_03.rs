//! `X-RateLimit-Limit`, `-Remaining` and `-Reset` as in draft-polli-ratelimit-headers-03, which is what
//! Envoy's rate limit filter writes.
//!
//! All three speak of the limit with the least left. `Reset` is the time until that limit is fresh
//! again: the draft means the end of the window, Envoy gives just that, and clients of these fields
//! expect the whole number to be back then. (A bucket has a unit again much sooner; a refusal's
//! `Retry-After` says when, and takes precedence.)

use std::cmp::Reverse;
use std::fmt::Write;

use waterclock::{Limit, LimitDecision};

use super::round::seconds_up;
use super::window::whole_seconds;
use super::{Fields, Told, X_LIMIT, X_REMAINING, X_RESET};

pub(super) fn tell<'a>(charges: impl Iterator<Item = &'a Told<'a>>, fields: &mut Fields) {
    let limits: Vec<(&Limit, &LimitDecision)> = charges.flat_map(Told::limits).collect();
    // Of those with as little left, the one that takes longest: it is what a client waits for.
    let tightness = |(_, decision): &&(&Limit, &LimitDecision)| {
        (decision.remaining.unwrap_or(u64::MAX), Reverse(decision.reset_after))
    };
    let Some((tightest, decision)) = limits.iter().min_by_key(tightness) else { return };
    let Some(remaining) = decision.remaining else { return };
    if let Some(list) = limit_list(tightest, &limits) {
        fields.set(X_LIMIT, list);
    }
    fields.set(X_REMAINING, remaining.to_string());
    fields.set(X_RESET, seconds_up(decision.reset_after).to_string());
}

/// The tightest limit's number, then every limit with its window.
///
/// A minimum interval has no number to give: while it is the tightest, the least of the others'
/// stands here, and nothing at all where there are none.
fn limit_list(tightest: &Limit, limits: &[(&Limit, &LimitDecision)]) -> Option<String> {
    let least = || limits.iter().filter_map(|(limit, _)| limit.max_cost()).min();
    let mut list = tightest.max_cost().or_else(least)?.to_string();
    for (limit, _) in limits {
        if let (Some(most), Some(window)) = (limit.max_cost(), whole_seconds(limit)) {
            // Writing to a String cannot fail.
            let _ = write!(list, ", {most};w={window}");
        }
    }
    Some(list)
}
