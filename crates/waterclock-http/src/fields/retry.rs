//! When to come back.

use std::time::Duration;

use super::Told;

/// The longest wait of those that were refused; none if nobody was, or if one of them never passes.
pub(super) fn longest_wait<'a>(charges: impl Iterator<Item = &'a Told<'a>>) -> Option<Duration> {
    charges
        .filter(|told| told.is_refused())
        .map(wait)
        .try_fold(None, |longest: Option<Duration>, wait| Some(longest.max(Some(wait?))))
        .flatten()
}

/// A limit that refused says when it will have more. No answer may send the client back before that,
/// whoever gave it.
fn wait(told: &Told<'_>) -> Option<Duration> {
    let wait = told.answer.decision.retry_after()?;
    let refusing = told.limits().filter(|(_, decision)| !decision.allowed);
    Some(refusing.filter_map(|(_, decision)| decision.next_unit).fold(wait, Duration::max))
}
