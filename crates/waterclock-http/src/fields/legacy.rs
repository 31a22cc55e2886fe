//! `X-RateLimit-Remaining`, `-Clear` and, when refused, `-Reset`, in seconds with three decimals.

use std::time::Duration;

use super::retry::longest_wait;
use super::round::thousandths_up;
use super::{Fields, Told, X_REMAINING, X_RESET};

const CLEAR: &str = "x-ratelimit-clear";

pub(super) fn tell<'a>(charges: impl Iterator<Item = &'a Told<'a>> + Clone, fields: &mut Fields) {
    let decisions = charges.clone().map(|told| &told.answer.decision);
    if let Some(remaining) = decisions.clone().filter_map(|decision| decision.remaining()).min() {
        fields.set(X_REMAINING, remaining.to_string());
    }
    let empty_in: Option<Duration> = decisions.map(|decision| decision.reset_after()).max();
    if let Some(empty_in) = empty_in {
        fields.set(CLEAR, thousandths_up(empty_in));
    }
    if let Some(wait) = longest_wait(charges) {
        fields.set(X_RESET, thousandths_up(wait));
    }
}
