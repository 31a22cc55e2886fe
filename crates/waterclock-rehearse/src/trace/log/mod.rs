//! Access logs: lines that others wrote, made events.

mod ahead;
mod combined;
mod csv;
mod entry;
mod format;
mod instant;
mod json;
mod order;
mod plan;
mod price;
mod settle;
mod spread;
mod tally;

pub(super) use self::ahead::Ahead;
pub(super) use self::instant::Unit;
pub(super) use self::settle::{Kind, Settings, open};

use waterclock_config::cannot_read;

use self::entry::Entry;
use self::format::Format;
use self::order::Order;
use self::plan::Plan;
use self::spread::Spread;
use self::tally::Tally;
use super::lines::Lines;
use crate::failure::Failure;

/// A log that is being read.
pub(super) struct Log {
    lines: Lines,
    format: Format,
    plan: Plan,
    order: Order,
    spread: Option<Spread>,
    tally: Tally,
    is_strict: bool,
    is_end: bool,
    /// Why it ended, if not because there is no more. It is told after all that was read before.
    complaint: Option<Failure>,
    /// Entries whose room can be used again.
    spare: Vec<Entry>,
}

impl Log {
    /// The next entry in the order of time.
    fn next(&mut self) -> Result<Option<Entry>, Failure> {
        loop {
            if let Some(entry) = self.ready() {
                return Ok(Some(entry));
            }
            if self.is_end {
                return self.complaint.take().map_or(Ok(None), Err);
            }
            match self.read_line() {
                Ok(true) => {}
                Ok(false) => {
                    self.is_end = true;
                    let doubt = self.format.doubt(self.plan.has_found_time);
                    self.complaint = self.tally.nothing_read(&doubt).map(Failure::from);
                }
                Err(failure) => {
                    self.is_end = true;
                    self.complaint = Some(failure);
                }
            }
        }
    }

    /// An entry that nothing can come before any more.
    fn ready(&mut self) -> Option<Entry> {
        let Some(spread) = &mut self.spread else { return self.order.pop(self.is_end) };
        loop {
            if let Some(entry) = spread.pop(false) {
                return Some(entry);
            }
            match self.order.pop(self.is_end) {
                Some(entry) => spread.push(entry),
                None => return spread.pop(self.is_end),
            }
        }
    }

    /// Takes in one line; whether there was one.
    fn read_line(&mut self) -> Result<bool, Failure> {
        let is_there = self.lines.advance();
        if !is_there.map_err(|error| cannot_read(self.lines.name(), &error))? {
            return Ok(false);
        }
        let mut entry = self.spare.pop().unwrap_or_default();
        match self.format.fill(&mut self.lines, &mut self.plan, &mut entry)? {
            Ok(true) => {
                self.tally.read += 1;
                self.tally.note_time(entry.t_us);
                self.order.push(entry);
            }
            Ok(false) => {
                self.tally.left_out += 1;
                self.recycle(entry);
            }
            Err(sentence) => {
                let place = || format!("{}:{}: {sentence}", self.lines.name(), self.lines.number);
                if self.is_strict {
                    return Err(place().into());
                }
                self.tally.skip(place);
                self.recycle(entry);
            }
        }
        Ok(true)
    }

    /// Keeps the room of an entry that is done with.
    fn recycle(&mut self, entry: Entry) {
        if entry.is_small() {
            self.spare.push(entry);
        }
    }

    /// What there is to tell once all is read.
    fn remarks(&self) -> Vec<String> {
        self.tally.remarks(&self.order, self.spread.is_some())
    }
}
