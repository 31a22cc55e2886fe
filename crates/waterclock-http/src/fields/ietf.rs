//! `RateLimit-Policy` and `RateLimit` as in draft-ietf-httpapi-ratelimit-headers: Structured Field Lists with one String
//! per limit. Nothing outside of this file depends on the draft's version.

use std::fmt::Write;
use std::time::Duration;

use waterclock::{Limit, LimitDecision};

use super::{HeaderFields, HeaderStyle, StyledAnswer, seconds_up, window_seconds};

const POLICY: &str = "ratelimit-policy";
const STATE: &str = "ratelimit";
pub(super) const LISTS: [&str; 2] = [POLICY, STATE];
/// The largest Integer of a Structured Field: 15 digits.
const MAX_INTEGER: u64 = 999_999_999_999_999;
/// Replaces a character that a Structured Field String cannot hold.
const REPLACEMENT: char = '?';

/// One limit in both lists.
struct Item<'a> {
    name: String,
    quota: u64,
    unit: &'a str,
    window: Option<u64>,
    remaining: u64,
    /// Seconds, as the draft's version has them.
    time: Option<u64>,
}

pub(super) fn write<'a>(
    answers: impl Iterator<Item = StyledAnswer<'a>>,
    fields: &mut HeaderFields,
) {
    let items = items(answers);
    if items.is_empty() {
        return;
    }
    fields.set(POLICY, list(&items, Item::policy));
    fields.set(STATE, list(&items, Item::state));
}

/// The limits in order, each name once: of two keys under one policy, the one with less left.
fn items<'a>(answers: impl Iterator<Item = StyledAnswer<'a>>) -> Vec<Item<'a>> {
    let mut items: Vec<Item<'a>> = Vec::new();
    for answer in answers {
        for (limit, decision) in answer.limits() {
            let Some(item) = Item::new(answer, limit, decision) else { continue };
            match items.iter_mut().find(|known| known.name == item.name) {
                Some(known) if item.tightness() < known.tightness() => *known = item,
                Some(_) => {}
                None => items.push(item),
            }
        }
    }
    items
}

impl<'a> Item<'a> {
    /// `None` for a limit without a number, because `q` is mandatory.
    fn new(answer: StyledAnswer<'_>, limit: &'a Limit, decision: &LimitDecision) -> Option<Self> {
        let remaining = decision.remaining?;
        let time = match answer.style {
            HeaderStyle::Draft10 => decision.next_unit,
            _ => effective_window(limit, decision, remaining),
        };
        Some(Self {
            name: format!("{}.{}", answer.name, limit.name()),
            quota: limit.max_cost()?,
            unit: limit.unit(),
            window: window_seconds(limit),
            remaining,
            time: time.map(seconds_up),
        })
    }

    /// Less left, and later, sorts first.
    fn tightness(&self) -> (u64, std::cmp::Reverse<Option<u64>>) {
        (self.remaining, std::cmp::Reverse(self.time))
    }

    fn policy(&self, to: &mut String) {
        string(&self.name, to);
        integer("q", self.quota, to);
        if self.unit != "requests" {
            to.push_str(";qu=");
            string(self.unit, to);
        }
        if let Some(window) = self.window {
            integer("w", window, to);
        }
    }

    fn state(&self, to: &mut String) {
        string(&self.name, to);
        integer("r", self.remaining, to);
        if let Some(seconds) = self.time {
            integer("t", seconds, to);
        }
    }
}

/// The time over which what is left may be used, as draft 11 has it: no faster than the limit's own pace, and for a window
/// at least until units of it return. With nothing left, the time until there is something.
fn effective_window(limit: &Limit, decision: &LimitDecision, remaining: u64) -> Option<Duration> {
    if remaining == 0 {
        return decision.next_unit;
    }
    let at_its_pace = limit.time_for(remaining);
    let time = if limit.refills() { at_its_pace } else { at_its_pace.max(decision.next_unit) };
    time.map(|time| time.max(Duration::from_secs(1)))
}

fn list<'a>(items: &[Item<'a>], write: impl Fn(&Item<'a>, &mut String)) -> String {
    let mut list = String::new();
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            list.push_str(", ");
        }
        write(item, &mut list);
    }
    list
}

fn integer(name: &str, value: u64, to: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(to, ";{name}={}", value.min(MAX_INTEGER));
}

fn string(text: &str, to: &mut String) {
    to.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => to.extend(['\\', character]),
            ' '..='~' => to.push(character),
            _ => to.push(REPLACEMENT),
        }
    }
    to.push('"');
}
