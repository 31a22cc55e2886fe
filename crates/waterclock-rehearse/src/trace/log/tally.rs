//! What there is to tell about a log once it is read.

use super::order::Order;

const SECOND_US: u64 = 1_000_000;

/// Counts of lines.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) read: u64,
    pub(super) left_out: u64,
    skipped: u64,
    /// Where and why.
    first_skipped: Option<String>,
    is_precise: bool,
    shares_a_second: bool,
    last_us: Option<u64>,
    /// What was settled before the first line.
    pub(super) settled: Vec<String>,
}

impl Tally {
    pub(super) fn skip(&mut self, place: impl FnOnce() -> String) {
        self.skipped += 1;
        if self.first_skipped.is_none() {
            self.first_skipped = Some(place());
        }
    }

    pub(super) fn note_time(&mut self, t_us: u64) {
        self.is_precise |= !t_us.is_multiple_of(SECOND_US);
        self.shares_a_second |= self.last_us == Some(t_us);
        self.last_us = Some(t_us);
    }

    /// The complaint about a log of which nothing could be read, with what may be wrong.
    pub(super) fn nothing_read(&self, doubt: &str) -> Option<String> {
        let first = self.first_skipped.as_ref().filter(|_| self.read == 0 && self.left_out == 0)?;
        let none = match self.skipped {
            1 => "its only line cannot be read".to_owned(),
            lines => format!("none of {lines} lines can be read"),
        };
        Some(format!("{first}; {none}{doubt}"))
    }

    pub(super) fn remarks(&self, order: &Order, is_spread: bool) -> Vec<String> {
        let mut remarks = self.settled.clone();
        if let Some(first) = &self.first_skipped {
            let all = self.skipped + self.read + self.left_out;
            remarks.push(format!(
                "{} of {all} lines were skipped, the first is {first}",
                self.skipped
            ));
        }
        if self.read == 0 && self.left_out > 0 {
            remarks.push(format!("--where leaves out all {} lines", self.left_out));
        }
        if order.late > 0 {
            let by = seconds(order.latest_by_us);
            remarks.push(format!(
                "{} of {} lines come too late to be put in order, by up to {by} s; they count as at the time of the line before",
                order.late, self.read
            ));
        }
        if self.shares_a_second && !self.is_precise && !is_spread {
            remarks.push("times are whole seconds, so that lines of the same second arrive at once; --spread spreads them over it".to_owned());
        }
        remarks
    }
}

/// With as many digits as it needs.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / SECOND_US, us % SECOND_US);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
