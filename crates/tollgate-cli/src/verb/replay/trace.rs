//! A trace: events in the order of time, one per line.

use std::io::BufRead;

use super::complaint::complaint;
use super::event::{Event, Op};
use crate::failure::Failure;
use tollgate_server::config::cannot_read;

/// Reads events, and knows where it is when one is bad.
pub(super) struct Trace<R> {
    name: String,
    input: R,
    line: Vec<u8>,
    number: u64,
    latest_us: u64,
    takes_reports: bool,
}

impl<R: BufRead> Trace<R> {
    /// Reports are events only where the policy cares for them.
    pub(super) fn new(name: String, input: R, takes_reports: bool) -> Trace<R> {
        Trace { name, input, line: Vec::new(), number: 0, latest_us: 0, takes_reports }
    }

    /// The next event; empty lines are none.
    pub(super) fn next_event(&mut self) -> Result<Option<Event<'_>>, Failure> {
        loop {
            self.line.clear();
            self.number += 1;
            let read = self.input.read_until(b'\n', &mut self.line);
            if read.map_err(|error| cannot_read(&self.name, &error))? == 0 {
                return Ok(None);
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        let event: Event<'_> =
            serde_json::from_slice(self.line.trim_ascii_end()).map_err(|error| {
                format!(
                    "{}:{}:{}: {}",
                    self.name,
                    self.number,
                    error.column().max(1),
                    complaint(&self.line, &error)
                )
            })?;
        if matches!(event.op, Op::Report(_)) && !self.takes_reports {
            let (name, number) = (&self.name, self.number);
            return Err(format!(
                "{name}:{number}:1: `report` needs a policy with an error-rate limit"
            )
            .into());
        }
        if event.t_us < self.latest_us {
            let (name, number, before, now) = (&self.name, self.number, self.latest_us, event.t_us);
            return Err(format!(
                "{name}:{number}:1: time goes back from {before} to {now}; `t_us` must not decrease"
            )
            .into());
        }
        self.latest_us = event.t_us;
        Ok(Some(event))
    }
}
