//! How the lines of a log are to be understood.

use super::combined::Combined;
use super::csv::{Csv, Unsplit};
use super::entry::Entry;
use super::json::Json;
use super::plan::Plan;
use crate::failure::Failure;
use crate::trace::lines::Lines;
use waterclock_config::cannot_read;

/// How many lines a quoted field may go on for.
const MOST_HEIGHT: u32 = 64;

/// A kind of log, with what is known about it from its first line.
pub(super) enum Format {
    Combined,
    Json(Json),
    Csv(Csv),
}

impl Format {
    /// The end of a sentence that says that nothing could be read. Where lines have times, the format is right,
    /// and what was said before is all that is wrong.
    pub(super) fn doubt(&self, has_times: bool) -> String {
        match self {
            Format::Combined | Format::Csv(_) if has_times => String::new(),
            Format::Combined => ": is --input combined right?".to_owned(),
            Format::Csv(_) => ": is --input csv right?".to_owned(),
            Format::Json(json) => match json.fields_of_first() {
                None => ": is --input jsonl right?".to_owned(),
                Some(fields) => format!("; the fields of the first are {fields}"),
            },
        }
    }

    /// What the line is to the plan; whether it counts. The inner complaint is about this line only.
    pub(super) fn fill(
        &mut self,
        lines: &mut Lines,
        plan: &mut Plan,
        entry: &mut Entry,
    ) -> Result<Result<bool, String>, Failure> {
        if let Format::Csv(csv) = self {
            return fill_from_csv(csv, lines, plan, entry);
        }
        let text = match lines.text() {
            Ok(text) => text,
            Err(sentence) => return Ok(Err(sentence)),
        };
        Ok(match self {
            Format::Json(json) => json.parse(&text).and_then(|row| plan.fill(&row, entry)),
            _ => Combined::parse(&text).and_then(|row| plan.fill(&row, entry)),
        })
    }
}

fn fill_from_csv(
    csv: &mut Csv,
    lines: &mut Lines,
    plan: &mut Plan,
    entry: &mut Entry,
) -> Result<Result<bool, String>, Failure> {
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
    Ok(Err("a column begins with a quote that nothing closes".to_owned()))
}
