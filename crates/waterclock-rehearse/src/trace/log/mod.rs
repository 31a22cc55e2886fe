//! Access logs: lines of other programs as events.

mod ahead;
mod beside;
mod combined;
mod csv;
mod instant;
mod json;
mod open;
mod order;
mod plan;
mod recognise;

pub(super) use self::ahead::ReadAhead;
pub use self::beside::OldDecisions;
pub use self::instant::TimeUnit;

use serde_json::json;
use waterclock_config::{Micros, cannot_read};

use self::ahead::Entry;
use self::combined::Combined;
use self::csv::{Csv, Unsplit};
use self::json::Json;
use self::order::{Late, Order, Spread};
use self::plan::Plan;
use super::lines::Lines;
use crate::terminal::grouped;
use crate::{Error, Note};

/// How many used entries keep their memory. More come back at once only after many have waited for their order.
const MOST_SPARE: usize = 10_000;

/// The events of a log, read on this thread, and why it ends early if it does.
#[cfg(feature = "fuzzing")]
pub(crate) fn events(
    reading: &super::Reading,
    format: super::Format,
    input: super::Input,
    policy: &waterclock_config::PolicyConfig,
) -> Result<(Vec<super::Event<'static>>, Result<(), Error>), Error> {
    let mut events = Vec::new();
    let Some(mut log) = reading.log(format, input, &[policy], &[policy])? else {
        return Ok((events, Ok(())));
    };
    let end = loop {
        match log.next() {
            Ok(Some(entry)) => events.push(entry.event().into_owned()),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    _ = log.notes();
    Ok((events, end))
}

/// A log that is being read.
struct Log {
    lines: Lines,
    format: LogFormat,
    plan: Plan,
    order: Order,
    spread: Option<Spread>,
    tally: Tally,
    is_strict: bool,
    is_end: bool,
    /// Why it ended early. Reported after everything that was read before.
    error: Option<Error>,
    /// Entries whose memory can be used again.
    spare: Vec<Entry>,
}

impl Log {
    /// The next entry in the order of time.
    fn next(&mut self) -> Result<Option<Entry>, Error> {
        loop {
            if let Some(entry) = self.ready() {
                return Ok(Some(entry));
            }
            if self.is_end {
                return self.error.take().map_or(Ok(None), Err);
            }
            match self.read_line() {
                Ok(true) => {}
                Ok(false) => {
                    self.is_end = true;
                    let doubt = self.format.doubt(self.plan.has_found_time);
                    self.error = self.tally.nothing_read(&doubt).map(Error::from);
                }
                Err(error) => {
                    self.is_end = true;
                    self.error = Some(error);
                }
            }
        }
    }

    /// An entry that no later line can precede.
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

    /// Reads one line; whether there was one.
    fn read_line(&mut self) -> Result<bool, Error> {
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

    /// Keeps the memory of a used entry.
    fn recycle(&mut self, entry: Entry) {
        if entry.is_small() && self.spare.len() < MOST_SPARE {
            self.spare.push(entry);
        }
    }

    /// Notes once all is read.
    fn notes(&self) -> Vec<Note> {
        self.tally.notes(self.order.late, self.spread.is_some())
    }
}

/// How many lines a quoted field may span.
const MOST_HEIGHT: u32 = 64;

/// The format of a log, with what its first line says.
enum LogFormat {
    Combined,
    Json(Json),
    Csv(Csv),
}

impl LogFormat {
    /// Ends the sentence about a log in which nothing could be read: asks whether the format is right, unless lines had
    /// times.
    fn doubt(&self, has_times: bool) -> String {
        match self {
            LogFormat::Combined | LogFormat::Csv(_) if has_times => String::new(),
            LogFormat::Combined => ": is --input combined right?".to_owned(),
            LogFormat::Csv(_) => ": is --input csv right?".to_owned(),
            LogFormat::Json(json) => match json.fields_of_first() {
                None => ": is --input jsonl right?".to_owned(),
                Some(fields) => format!("; the fields of the first are {fields}"),
            },
        }
    }

    /// Fills an entry from the line; whether it counts. The inner error is about this line only.
    fn fill(
        &mut self,
        lines: &mut Lines,
        plan: &mut Plan,
        entry: &mut Entry,
    ) -> Result<Result<bool, String>, Error> {
        if let LogFormat::Csv(csv) = self {
            return fill_from_csv(csv, lines, plan, entry);
        }
        let text = match lines.text() {
            Ok(text) => text,
            Err(sentence) => return Ok(Err(sentence)),
        };
        Ok(match self {
            LogFormat::Json(json) => json.parse(&text).and_then(|row| plan.fill(&row, entry)),
            _ => Combined::parse(&text).and_then(|row| plan.fill(&row, entry)),
        })
    }
}

fn fill_from_csv(
    csv: &mut Csv,
    lines: &mut Lines,
    plan: &mut Plan,
    entry: &mut Entry,
) -> Result<Result<bool, String>, Error> {
    let mut height = 1;
    let mut split = match lines.bytes() {
        Err(sentence) => return Ok(Err(sentence)),
        Ok(line) => csv.split(line),
    };
    while split == Err(Unsplit::Open) && height < MOST_HEIGHT {
        let is_more = lines.extend().map_err(|error| cannot_read(lines.name(), &error))?;
        if !is_more {
            break;
        }
        height += 1;
        split = lines.bytes().map_or(Err(Unsplit::Stray), |line| csv.go_on(line));
    }
    if split.is_ok() {
        return Ok(lines.bytes().and_then(|line| plan.fill(&csv.row(line), entry)));
    }
    lines.give_back().map_err(|error| cannot_read(lines.name(), &error))?;
    Ok(Err("a quote at the start of a column is never closed".to_owned()))
}

const SECOND_US: u64 = 1_000_000;
/// Lines that are later than this are not late: some other line is early.
const DAY_US: u64 = 86_400 * SECOND_US;

/// Counts of lines, and what to note about them.
#[derive(Default)]
struct Tally {
    read: u64,
    left_out: u64,
    skipped: u64,
    /// Where it is, and why it was skipped.
    first_skipped: Option<String>,
    is_precise: bool,
    shares_a_second: bool,
    last_us: Option<u64>,
    /// Notes about the options.
    notes: Vec<Note>,
}

impl Tally {
    fn skip(&mut self, place: impl FnOnce() -> String) {
        self.skipped += 1;
        if self.first_skipped.is_none() {
            self.first_skipped = Some(place());
        }
    }

    fn note_time(&mut self, t_us: u64) {
        self.is_precise |= !t_us.is_multiple_of(SECOND_US);
        self.shares_a_second |= self.last_us == Some(t_us);
        self.last_us = Some(t_us);
    }

    /// The sentence about a log in which nothing could be read, with what may be wrong.
    fn nothing_read(&self, doubt: &str) -> Option<String> {
        let first = self.first_skipped.as_ref().filter(|_| self.read == 0 && self.left_out == 0)?;
        let none = match self.skipped {
            1 => "its only line cannot be read".to_owned(),
            lines => format!("none of {} lines can be read", grouped(lines)),
        };
        Some(format!("{first}; {none}{doubt}"))
    }

    fn notes(&self, late: Late, is_spread: bool) -> Vec<Note> {
        let mut notes = self.notes.clone();
        if let Some(first) = &self.first_skipped {
            let all = self.skipped + self.read + self.left_out;
            let skipped = self.skipped;
            let facts = json!({ "skipped": skipped, "lines": all, "first": first });
            let message = format!(
                "{} of {} lines were skipped, the first is {first}",
                grouped(skipped),
                grouped(all)
            );
            notes.push(Note::new("skipped-lines", facts, message));
        }
        if self.read == 0 && self.left_out > 0 {
            let message = format!("--where leaves out all {} lines", grouped(self.left_out));
            notes.push(Note::new("all-left-out", json!({ "lines": self.left_out }), message));
        }
        if late.lines > 0 {
            notes.push(self.late_lines(late));
        }
        if self.shares_a_second && !self.is_precise && !is_spread {
            let message = "times are whole seconds, so lines of the same second arrive at once; --spread spreads them over it";
            notes.push(Note::new("whole-seconds", json!({}), message));
        }
        notes
    }

    fn late_lines(&self, late: Late) -> Note {
        let Late { lines, moved_us, behind_us, is_bounded } = late;
        let facts = json!({ "late": lines, "lines": self.read, "up_to_us": moved_us, "reorder_us": behind_us });
        let more = if is_bounded {
            "too many lines lie between to wait for them: sort the log".to_owned()
        } else if behind_us > DAY_US {
            "perhaps a line has a time far ahead of the others: correct it, or sort the log"
                .to_owned()
        } else {
            format!("--reorder {} puts them in order", Micros(behind_us))
        };
        let by = Micros(behind_us).for_people();
        let message = format!(
            "{} of {} lines are out of order by too much (up to {by}); they count at the time of the line before; {more}",
            grouped(lines),
            grouped(self.read)
        );
        Note::new("late-lines", facts, message)
    }
}
