//! The format of an input whose flags do not name it, told from its first lines.

use serde_json::{Map, Value};

use super::combined::Combined;
use super::csv::Csv;
use super::open::TIMES;
use crate::Error;
use crate::expr::Names as _;
use crate::trace::lines::Input;
use crate::trace::{Format, Reading};

/// How many lines are looked at: a log may begin with some that no format explains.
const LINES: usize = 10;
/// The fields of an event.
const OF_EVENTS: [&str; 7] = ["t_us", "key", "cost", "op", "outcome", "tier", "factor"];

impl Reading {
    /// Finds out the format, where [`format`](Reading::format) does not name it. Nothing of the input is lost.
    ///
    /// # Errors
    ///
    /// If the first lines are of no known format.
    pub fn recognise(&self, input: Input) -> Result<(Reading, Input), Error> {
        let mut reading = self.clone();
        if self.known().is_some() {
            return Ok((reading, input));
        }
        let mut is_first = true;
        let (input, recognised) = input.look_ahead(LINES, |line| {
            let line = String::from_utf8_lossy(line);
            self.format_of(line.trim(), std::mem::take(&mut is_first))
        })?;
        // What is empty is as good as an empty trace.
        let otherwise = is_first.then_some(Format::Trace);
        reading.recognised = recognised.or(otherwise);
        if reading.recognised.is_none() {
            return Err(format!(
                "{}: its first lines are neither a trace nor an access log of a known format; name the format with \
                 --input trace, combined, jsonl or csv",
                input.name()
            )
            .into());
        }
        Ok((reading, input))
    }

    fn format_of(&self, line: &str, is_first: bool) -> Option<Format> {
        if line.starts_with('{') {
            return Some(self.format_of_object(line));
        }
        if Combined::parse(line).is_ok() {
            return Some(Format::Combined);
        }
        (is_first && self.is_header(line)).then_some(Format::Csv)
    }

    /// An event of a trace or a line of a log. What is no JSON is taken for a broken event.
    fn format_of_object(&self, line: &str) -> Format {
        let object = serde_json::from_str::<Map<String, Value>>(line).unwrap_or_default();
        let has_other_fields = object.keys().any(|name| !OF_EVENTS.contains(&&**name));
        // An event of a trace stays one, whatever the flags: as a line of a log it would lose its cost and its verb.
        let is_log = match object.contains_key("t_us") {
            true => has_other_fields && self.has_flags_of_logs(),
            false => has_other_fields || self.has_flags_of_logs(),
        };
        if is_log { Format::Jsonl } else { Format::Trace }
    }

    /// Whether a line names columns, one of which holds the time.
    fn is_header(&self, line: &str) -> bool {
        let Ok(mut csv) = Csv::new(line.as_bytes(), b',', true) else { return false };
        let has_time = self.time.as_deref().into_iter().chain(TIMES).any(|name| csv.has(name));
        has_time && line.contains(',')
    }
}
