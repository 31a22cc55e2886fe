//! Waterclock's own traces: events as JSON lines, in the order of time.

use waterclock::{Policy, Scope};
use waterclock_config::cannot_read;

use super::event::{Event, Op, misunderstood, unknown_tier};
use super::event_json::{WHOLE, must_be_whole};
use super::lines::{Input, Lines};
use crate::Error;
use crate::terminal::shown;

/// A trace that is being read.
pub(super) struct OwnTrace {
    lines: Lines,
    latest_us: u64,
    /// The policies that the events are for.
    scopes: Vec<Scope>,
}

impl OwnTrace {
    /// Reports need a first policy that takes them, and costs and tiers must make sense to the policies.
    pub(super) fn new(input: Input, scopes: Vec<Scope>) -> OwnTrace {
        OwnTrace { lines: Lines::new(input), latest_us: 0, scopes }
    }

    /// The next event.
    pub(super) fn next_event(&mut self) -> Result<Option<Event<'_>>, Error> {
        let is_there = self.lines.advance();
        if !is_there.map_err(|error| cannot_read(self.lines.name(), &error))? {
            return Ok(None);
        }
        let (name, number) = (self.lines.name(), self.lines.number);
        let line =
            self.lines.bytes().map_err(|sentence| format!("{name}:{number}:1: {sentence}"))?;
        let event: Event<'_> = serde_json::from_slice(line.trim_ascii_end()).map_err(|error| {
            let is_log = number == 1 && !line.trim_ascii_start().starts_with(b"{");
            let hint =
                if is_log { "; an access log needs --input combined, jsonl or csv" } else { "" };
            let column = error.column().max(1);
            format!("{name}:{number}:{column}: {}{hint}", problem(line, &error))
        })?;
        let policies = self.scopes.iter().map(|scope| -> &Policy { scope.policy() });
        if let Some(error) = misunderstood(policies.clone(), event.verb(), event.cost.as_ref()) {
            return Err(format!("{name}:{number}:1: {error}").into());
        }
        if let Some(error) = unknown_tier(self.scopes.iter(), event.tier.as_deref()) {
            return Err(format!("{name}:{number}:1: {error}").into());
        }
        let takes_reports = policies.clone().next().is_some_and(Policy::takes_reports);
        if matches!(event.op, Op::Report(_)) && !takes_reports {
            return Err(format!(
                "{name}:{number}:1: `report` needs a policy with an error-rate limit"
            )
            .into());
        }
        if event.t_us < self.latest_us {
            let (before, now) = (self.latest_us, event.t_us);
            return Err(format!(
                "{name}:{number}:1: time goes back from {before} to {now}; `t_us` must not decrease"
            )
            .into());
        }
        self.latest_us = event.t_us;
        Ok(Some(event))
    }
}

/// What is wrong with a line, from what the parser says about it.
fn problem(line: &[u8], error: &serde_json::Error) -> String {
    let words = error.to_string();
    // The parser takes every line for line 1.
    let words = words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words);
    let written = Written::around(line, error.column());
    if error.is_data() {
        let value = words.strip_prefix("invalid type: ").or(words.strip_prefix("invalid value: "));
        return match value.and_then(|value| value.rsplit_once(", expected ")) {
            Some((value, must)) => format!("{must}; found {}", shown(&found(value, &written))),
            None => words.to_owned(),
        };
    }
    if words == "trailing characters" {
        return "one event per line; nothing may follow it".to_owned();
    }
    // Numbers that JSON cannot write, such as NaN.
    match WHOLE.iter().find(|name| written.spoils(name)) {
        Some(name) => format!("{}; found {}", must_be_whole(name), shown(&written.word)),
        None => r#"this line is not JSON; write an event such as {"t_us": 0, "key": "alice"}"#
            .to_owned(),
    }
}

/// A value as the line has it, from the parser's name for it.
fn found(value: &str, written: &Written) -> String {
    match value {
        "sequence" => "an array".to_owned(),
        "map" => "an object".to_owned(),
        // The parser has rounded it.
        _ if value.starts_with("floating point ") => written.word.clone(),
        _ => match value.strip_prefix("string ") {
            Some(string) => string.to_owned(),
            None => value.split('`').nth(1).unwrap_or(value).to_owned(),
        },
    }
}

/// A number or a word outside quotes, and what stands before it.
struct Written {
    before: String,
    word: String,
}

impl Written {
    /// Around a column that is counted from 1.
    fn around(line: &[u8], column: usize) -> Written {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-._".contains(byte);
        let (head, tail) = line.split_at(column.min(line.len()));
        let back = head.iter().rev().take_while(|byte| is_part(byte)).count();
        let on = tail.iter().take_while(|byte| is_part(byte)).count();
        let (before, start) = head.split_at(head.len() - back);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Written { before: text(before), word: text(start) + &text(&tail[..on]) }
    }

    /// Whether it is the value of that name, which should be a whole number, and is not one.
    fn spoils(&self, name: &str) -> bool {
        let before = self.before.trim_end().strip_suffix(':').map(str::trim_end);
        let is_whole = self.word.parse::<u64>().is_ok();
        !self.word.is_empty()
            && !is_whole
            && before.is_some_and(|key| key.ends_with(&format!("\"{name}\"")))
    }
}
