//! `RateLimit-Policy` and `RateLimit` as in draft-ietf-httpapi-ratelimit-headers-10: Structured Field
//! Lists with one String per limit. Nothing outside of this file depends on the draft's version.

use std::fmt::Write;

use waterclock::{Limit, LimitDecision};

use super::{HeaderFields, StyledAnswer, seconds_up, window_seconds};

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
    /// Seconds until the next unit.
    next_unit: Option<u64>,
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
            let Some(item) = Item::new(answer.name, limit, decision) else { continue };
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
    fn new(policy: &str, limit: &'a Limit, decision: &LimitDecision) -> Option<Self> {
        Some(Self {
            name: format!("{}.{}", policy, limit.name()),
            quota: limit.max_cost()?,
            unit: limit.unit(),
            window: window_seconds(limit),
            remaining: decision.remaining?,
            next_unit: decision.next_unit.map(seconds_up),
        })
    }

    /// Less left, and later, sorts first.
    fn tightness(&self) -> (u64, std::cmp::Reverse<Option<u64>>) {
        (self.remaining, std::cmp::Reverse(self.next_unit))
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
        if let Some(seconds) = self.next_unit {
            integer("t", seconds, to);
        }
    }
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
