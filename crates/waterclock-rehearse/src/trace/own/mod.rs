//! A trace of our own: events as JSON lines, in the order of time.

mod complaint;
pub(super) mod value;

use waterclock::Policy;
use waterclock_config::cannot_read;

use self::complaint::complaint;
use super::event::{Event, Op, misunderstood};
use super::input::Input;
use super::lines::Lines;
use crate::failure::Failure;

/// Reads events, and knows where it is when one is bad.
pub(super) struct OwnTrace {
    lines: Lines,
    latest_us: u64,
    /// What the events are for.
    policies: Vec<Policy>,
}

impl OwnTrace {
    /// Reports are events only where the first policy cares for them, and costs where all understand them.
    pub(super) fn new(input: Input, policies: Vec<Policy>) -> OwnTrace {
        OwnTrace { lines: Lines::new(input), latest_us: 0, policies }
    }

    /// The next event; empty lines are none.
    pub(super) fn next_event(&mut self) -> Result<Option<Event<'_>>, Failure> {
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
            format!("{name}:{number}:{column}: {}{hint}", complaint(line, &error))
        })?;
        if let Some(error) = misunderstood(self.policies.iter(), event.verb(), event.cost.as_ref())
        {
            return Err(format!("{name}:{number}:1: {error}").into());
        }
        let takes_reports = self.policies.first().is_some_and(Policy::takes_reports);
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
