//! When a line happened, from the ways in which logs say it.

mod civil;
#[cfg(test)]
mod tests;
mod unit;
mod written;

use waterclock::Timestamp;

pub(in crate::trace) use self::unit::Unit;

use self::written::{of_log, of_standard};
use crate::expr::{Ratio, Value, quoted};
use crate::trace::shown::shown;

/// The last instant there is, in microseconds.
const LATEST_US: u64 = Timestamp::MAX.as_nanos() / 1_000;

/// Reads times, and remembers the last: lines of one second say the same.
#[derive(Default)]
pub(super) struct Instants {
    text: String,
    unit: Option<Unit>,
    t_us: u64,
}

impl Instants {
    /// Microseconds since the Unix epoch.
    pub(super) fn read(&mut self, value: &Value<'_>, unit: Unit) -> Result<u64, String> {
        let text = match value {
            Value::Number(number) => return of_number(*number, unit),
            Value::Text(text) => &**text,
            Value::Truth(truth) => return Err(format!("{truth} is not a time")),
            Value::Missing => return Err("the time is missing".to_owned()),
        };
        if self.unit == Some(unit) && self.text == text {
            return Ok(self.t_us);
        }
        let t_us = of_text(text, unit)?;
        self.text.clear();
        self.text.push_str(text);
        self.unit = Some(unit);
        self.t_us = t_us;
        Ok(t_us)
    }
}

fn of_text(text: &str, unit: Unit) -> Result<u64, String> {
    let trimmed = text.trim_ascii().trim_start_matches('[').trim_end_matches(']');
    if let Some(number) = Ratio::parse(trimmed) {
        return of_number(number, unit);
    }
    let not_a_time = || {
        let examples = "10/Oct/2025:13:55:36 +0200, 2025-10-10T13:55:36Z or Unix time";
        format!("{} is not a time such as {examples}", quoted(text))
    };
    let micros = of_log(trimmed).or_else(|| of_standard(trimmed)).ok_or_else(not_a_time)?;
    in_range(micros.into()).ok_or_else(|| out_of_range(&shown(trimmed)))
}

fn of_number(number: Ratio, unit: Unit) -> Result<u64, String> {
    let micros = unit.micros(number);
    micros.and_then(in_range).ok_or_else(|| out_of_range(&number.to_string()))
}

fn in_range(micros: i128) -> Option<u64> {
    u64::try_from(micros).ok().filter(|micros| *micros <= LATEST_US)
}

fn out_of_range(text: &str) -> String {
    format!("the time {text} is before 1970 or after 2116")
}
