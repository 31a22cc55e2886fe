//! A trace of our own: events as JSON lines, in the order of time.

mod complaint;
pub(super) mod value;

use std::io::BufRead;

use tollgate_server::config::cannot_read;

use self::complaint::complaint;
use super::event::{Event, Op};
use super::input::Input;
use crate::failure::Failure;

/// Reads events, and knows where it is when one is bad.
pub(super) struct OwnTrace {
    input: Input,
    line: Vec<u8>,
    number: u64,
    latest_us: u64,
    takes_reports: bool,
}

impl OwnTrace {
    /// Reports are events only where the policy cares for them.
    pub(super) fn new(input: Input, takes_reports: bool) -> OwnTrace {
        OwnTrace { input, line: Vec::new(), number: 0, latest_us: 0, takes_reports }
    }

    /// The next event; empty lines are none.
    pub(super) fn next_event(&mut self) -> Result<Option<Event<'_>>, Failure> {
        loop {
            self.line.clear();
            self.number += 1;
            let read = self.input.bytes.read_until(b'\n', &mut self.line);
            if read.map_err(|error| cannot_read(&self.input.name, &error))? == 0 {
                return Ok(None);
            }
            self.input.progress.line();
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        let name = &self.input.name;
        let event: Event<'_> =
            serde_json::from_slice(self.line.trim_ascii_end()).map_err(|error| {
                format!(
                    "{name}:{}:{}: {}",
                    self.number,
                    error.column().max(1),
                    complaint(&self.line, &error)
                )
            })?;
        if matches!(event.op, Op::Report(_)) && !self.takes_reports {
            let number = self.number;
            return Err(format!(
                "{name}:{number}:1: `report` needs a policy with an error-rate limit"
            )
            .into());
        }
        if event.t_us < self.latest_us {
            let (number, before, now) = (self.number, self.latest_us, event.t_us);
            return Err(format!(
                "{name}:{number}:1: time goes back from {before} to {now}; `t_us` must not decrease"
            )
            .into());
        }
        self.latest_us = event.t_us;
        Ok(Some(event))
    }
}
