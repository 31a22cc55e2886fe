//! `RateLimit-Policy` and `RateLimit` as in draft-ietf-httpapi-ratelimit-headers: Structured Field Lists with one String
//! per limit. Nothing outside of this file depends on the draft's version.

use std::time::Duration;

use waterclock::{Limit, LimitDecision, Policy};

use super::{HeaderFields, HeaderStyle, StyledAnswer, seconds_up, window_seconds};

pub(super) const POLICY: &str = "ratelimit-policy";
pub(super) const STATE: &str = "ratelimit";
pub(super) const LISTS: [&str; 2] = [POLICY, STATE];
const REMAINING: &str = ";r=";
pub(super) const TIME: &str = ";t=";
/// The largest Integer of a Structured Field: 15 digits.
pub(super) const MAX_INTEGER: u64 = 999_999_999_999_999;
/// Replaces a character that a Structured Field String cannot hold.
const REPLACEMENT: char = '?';

/// One limit in both lists.
struct Item<'a> {
    definition: Definition<'a>,
    remaining: u64,
    /// Seconds, as the draft's version has them.
    time: Option<u64>,
}

/// What the list of policies says of a limit.
struct Definition<'a> {
    name: Name<'a>,
    quota: u64,
    unit: &'a str,
    window: Option<u64>,
}

/// `policy.limit`.
#[derive(Clone, Copy)]
struct Name<'a> {
    policy: &'a str,
    limit: &'a str,
}

pub(super) fn write<'a>(
    answers: impl Iterator<Item = StyledAnswer<'a>>,
    fields: &mut HeaderFields,
) {
    let items = items(answers);
    if items.is_empty() {
        return;
    }
    fields.set(POLICY, list(&items, |item, to| item.definition.write(to)));
    fields.set(STATE, list(&items, Item::write));
}

/// The list of policies, and how the item of each limit in the other list starts, up to the number that is left. `None` for
/// limits without an item.
pub(super) fn prepare(policy: &Policy) -> (String, Box<[Option<Box<str>>]>) {
    let mut definitions = Vec::with_capacity(policy.limits().len());
    let starts = policy.limits().iter().map(|limit| {
        let definition = Definition::new(policy.name(), limit).filter(|_| !limit.is_shadow())?;
        let mut start = String::new();
        definition.name.write(&mut start);
        start.push_str(REMAINING);
        definitions.push(definition);
        Some(start.into())
    });
    let starts = starts.collect();
    (list(&definitions, Definition::write), starts)
}

/// The limits in order, each name once: of two keys under one policy, the one with less left.
fn items<'a>(answers: impl Iterator<Item = StyledAnswer<'a>>) -> Vec<Item<'a>> {
    let mut items: Vec<Item<'a>> = Vec::new();
    for answer in answers {
        for (limit, decision) in answer.limits() {
            let Some(item) = Item::new(answer, limit, decision) else { continue };
            let name = item.definition.name;
            match items.iter_mut().find(|known| known.definition.name.reads_as(name)) {
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
    fn new(answer: StyledAnswer<'a>, limit: &'a Limit, decision: &LimitDecision) -> Option<Self> {
        let remaining = decision.remaining?;
        Some(Self {
            definition: Definition::new(answer.name, limit)?,
            remaining,
            time: time(answer.style, limit, decision, remaining),
        })
    }

    /// Less left, and later, sorts first.
    fn tightness(&self) -> (u64, std::cmp::Reverse<Option<u64>>) {
        (self.remaining, std::cmp::Reverse(self.time))
    }

    fn write(&self, to: &mut String) {
        self.definition.name.write(to);
        integer(REMAINING, self.remaining, to);
        if let Some(seconds) = self.time {
            integer(TIME, seconds, to);
        }
    }
}

impl<'a> Definition<'a> {
    /// `None` for a limit without a number.
    fn new(policy: &'a str, limit: &'a Limit) -> Option<Self> {
        let name = Name { policy, limit: limit.name() };
        let (unit, window) = (limit.unit(), window_seconds(limit));
        Some(Self { name, quota: limit.max_cost()?, unit, window })
    }

    fn write(&self, to: &mut String) {
        self.name.write(to);
        integer(";q=", self.quota, to);
        if self.unit != "requests" {
            to.push_str(";qu=\"");
            escape(self.unit, to);
            to.push('"');
        }
        if let Some(window) = self.window {
            integer(";w=", window, to);
        }
    }
}

impl Name<'_> {
    /// Whether both are the same text.
    fn reads_as(self, other: Name<'_>) -> bool {
        fn text<'a>(name: Name<'a>) -> impl Iterator<Item = u8> + use<'a> {
            name.policy.bytes().chain([b'.']).chain(name.limit.bytes())
        }
        text(self).eq(text(other))
    }

    fn write(self, to: &mut String) {
        to.push('"');
        escape(self.policy, to);
        to.push('.');
        escape(self.limit, to);
        to.push('"');
    }
}

/// `t` of an item, in seconds.
#[inline]
pub(super) fn time(
    style: HeaderStyle,
    limit: &Limit,
    decision: &LimitDecision,
    remaining: u64,
) -> Option<u64> {
    let time = match style {
        HeaderStyle::Draft10 => decision.next_unit,
        _ => effective_window(limit, decision, remaining),
    };
    time.map(seconds_up)
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

fn list<T>(items: &[T], write: impl Fn(&T, &mut String)) -> String {
    // Enough for most items, so that it does not grow step by step.
    let mut list = String::with_capacity(64 * items.len());
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            list.push_str(", ");
        }
        write(item, &mut list);
    }
    list
}

fn integer(name: &str, value: u64, to: &mut String) {
    to.push_str(name);
    to.push_str(itoa::Buffer::new().format(value.min(MAX_INTEGER)));
}

fn escape(text: &str, to: &mut String) {
    // As most names are.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        to.push_str(text);
        return;
    }
    for character in text.chars() {
        match character {
            '"' | '\\' => to.extend(['\\', character]),
            ' '..='~' => to.push(character),
            _ => to.push(REPLACEMENT),
        }
    }
}
