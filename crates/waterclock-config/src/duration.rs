//! Durations: whole microseconds, written as `"250ms"`, `"1h30m"` or `"7d"`.

use std::fmt;
use std::time::Duration;

use waterclock::Decimal;

use super::suggest::{did_you_mean, quoted};

/// Each unit's names and its length in microseconds, longest first.
const UNITS: &[(&[&str], u64)] = &[
    (&["w", "week", "weeks"], 604_800_000_000),
    (&["d", "day", "days"], 86_400_000_000),
    (&["h", "hour", "hours"], 3_600_000_000),
    (&["m", "min", "mins", "minute", "minutes"], 60_000_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000),
    (&["ms", "millisecond", "milliseconds"], 1_000),
    // The micro sign and the Greek letter look the same.
    (&["us", "µs", "μs", "microsecond", "microseconds"], 1),
];

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A duration in microseconds, the finest time every store can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Micros(pub u64);

/// Why a text is no duration. Displays as half a sentence: what is named before it "must be longer than 0".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError(String);

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DurationError {}

impl Micros {
    /// A hundred years of 365.25 days. Anything longer is a typo.
    pub const MAX: Micros = Micros(36_525 * 86_400_000_000);

    /// Longer than nothing and at most a hundred years.
    pub fn parse(text: &str) -> Result<Micros, DurationError> {
        match Micros::parse_or_zero(text)? {
            Micros(0) => Err(wrong("must be longer than 0", text)),
            micros => Ok(micros),
        }
    }

    /// As [`Micros::parse`], and 0 is accepted.
    pub fn parse_or_zero(text: &str) -> Result<Micros, DurationError> {
        let wrong = |what: &str| wrong(what, text);
        let too_long = || wrong("must be at most 100 years");
        if text.starts_with('-') {
            return Err(wrong("must not be negative"));
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong(&format!("needs a unit, such as \"{text}s\" or \"{text}ms\"")));
        }
        let mut total: u64 = 0;
        let mut longest_left = UNITS.len();
        let mut rest = text.trim();
        while !rest.is_empty() || text.trim().is_empty() {
            let (amount, unit, after) = first_part(rest).ok_or_else(|| wrong(SYNTAX))?;
            let place = UNITS.iter().position(|(names, _)| names.contains(&unit));
            let place = place.ok_or_else(|| {
                let DurationError(half) = wrong(SYNTAX);
                DurationError(half + &did_you_mean(unit, Micros::unit_names()))
            })?;
            if longest_left != UNITS.len() && place <= longest_left {
                return Err(wrong("must name each unit once, the longest first"));
            }
            longest_left = place;
            let amount = Decimal::parse_scientific(amount).ok_or_else(|| wrong(SYNTAX))?;
            let micros = amount.times(UNITS[place].1.into()).ok_or_else(too_long)?;
            if micros.ceil() > Micros::MAX.0.into() {
                return Err(too_long());
            }
            let micros = micros.to_whole();
            let micros = micros.ok_or_else(|| wrong("must be a whole number of microseconds"))?;
            total = total.checked_add(micros).ok_or_else(too_long)?;
            rest = after.trim_start();
        }
        if total > Micros::MAX.0 { Err(too_long()) } else { Ok(Micros(total)) }
    }

    /// One of a unit, by any of its names.
    pub fn one(unit: &str) -> Option<Micros> {
        let named = UNITS.iter().find(|(names, _)| names.contains(&unit));
        named.map(|(_, length)| Micros(*length))
    }

    /// Every name of every unit.
    pub fn unit_names() -> impl Iterator<Item = &'static str> {
        UNITS.iter().flat_map(|(names, _)| names.iter().copied())
    }

    /// As the library takes it.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_micros(self.0)
    }

    /// Exactly, as people read it: `200 ms`, `1.5 s`, `1 min 43 s`.
    #[must_use]
    pub fn in_words(self) -> String {
        if self.0 == 0 {
            return "0 s".to_owned();
        }
        let mut left = self.0;
        let mut parts = Vec::new();
        // Without weeks, as in files.
        for (unit, name) in [(DAY, "d"), (HOUR, "h"), (MINUTE, "min")] {
            if left >= unit {
                parts.push(format!("{} {name}", left / unit));
                left %= unit;
            }
        }
        let (unit, digits, name) = match left {
            0 => return parts.join(" "),
            1..1_000 if parts.is_empty() => (1, 0, "µs"),
            1_000..SECOND if parts.is_empty() => (1_000, 3, "ms"),
            _ => (SECOND, 6, "s"),
        };
        let decimals = format!(".{:0digits$}", left % unit);
        let decimals = decimals.trim_end_matches('0').trim_end_matches('.');
        parts.push(format!("{}{decimals} {name}", left / unit));
        parts.join(" ")
    }

    /// Rounded up for people, so that a client that waits this long is not early: `1.09 s`, `1 min 43 s`.
    #[must_use]
    pub fn for_people(self) -> String {
        let step = self.step();
        Micros(self.0.div_ceil(step).saturating_mul(step)).in_words()
    }

    /// The nearest time with three digits, or in the two largest units.
    #[must_use]
    pub fn rounded(self) -> Micros {
        let step = self.step();
        Micros(self.0.saturating_add(step / 2) / step * step)
    }

    fn step(self) -> u64 {
        match self.0 {
            0..1_000 => 1,
            1_000..MINUTE => 10_u64.pow(self.0.ilog10() - 2),
            MINUTE..HOUR => SECOND,
            HOUR..DAY => MINUTE,
            _ => HOUR,
        }
    }
}

/// Rounded down to whole microseconds.
impl From<Duration> for Micros {
    fn from(time: Duration) -> Micros {
        Micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    }
}

/// The longest unit first, so that what is shown can be pasted back into a file.
impl fmt::Display for Micros {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return formatter.write_str("0s");
        }
        let mut left = self.0;
        // Without weeks: 30 days are 30d, not 4w2d.
        for (names, length) in &UNITS[1..] {
            if left >= *length {
                write!(formatter, "{}{}", left / length, names[0])?;
                left %= length;
            }
        }
        Ok(())
    }
}

/// Splits `1.5h30m` into `1.5`, `h` and `30m`.
fn first_part(text: &str) -> Option<(&str, &str, &str)> {
    let is_amount = |character: char| character.is_ascii_digit() || character == '.';
    let (amount, rest) = text.split_at(text.find(|character| !is_amount(character))?);
    let rest = rest.trim_start();
    let end = rest.find(|character: char| !character.is_alphabetic()).unwrap_or(rest.len());
    let (unit, after) = rest.split_at(end);
    Some((amount, unit, after))
}

const SYNTAX: &str = "must be a duration such as \"250ms\", \"1s\", \"1h30m\" or \"7d\" (units us, ms, s, m, h, d, w)";

fn wrong(what: &str, text: &str) -> DurationError {
    DurationError(format!("{what}; found {}", quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_durations() {
        let cases = [
            ("250ms", 250_000),
            ("1s", 1_000_000),
            ("1h30m", 5_400_000_000),
            ("1h 30min", 5_400_000_000),
            ("7d", 604_800_000_000),
            ("2w", 1_209_600_000_000),
            ("10us", 10),
            ("10µs", 10),
            ("1.5s", 1_500_000),
            ("0.5ms", 500),
            ("1 hour", 3_600_000_000),
            ("2 minutes", 120_000_000),
            ("1 second", 1_000_000),
            ("36525d", Micros::MAX.0),
        ];
        for (text, micros) in cases {
            assert_eq!(Micros::parse(text), Ok(Micros(micros)), "{text}");
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        let cases = [
            ("", "must be a duration"),
            ("s", "must be a duration"),
            ("1 fortnight", "must be a duration"),
            ("1s1", "must be a duration"),
            ("60", "needs a unit"),
            ("-1s", "must not be negative"),
            ("0s", "must be longer than 0"),
            ("0.5us", "whole number of microseconds"),
            ("30m1h", "the longest first"),
            ("1s1s", "each unit once"),
            ("36526d", "at most 100 years"),
            ("99999999999999999w", "at most 100 years"),
        ];
        for (text, expected) in cases {
            let error = Micros::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn words_for_people() {
        for (micros, exact, rounded_up) in [
            (0, "0 s", "0 s"),
            (250, "250 µs", "250 µs"),
            (1_500, "1.5 ms", "1.5 ms"),
            (33_301, "33.301 ms", "33.4 ms"),
            (1_086_407, "1.086407 s", "1.09 s"),
            (60_000_001, "1 min 0.000001 s", "1 min 1 s"),
            (61_952_258, "1 min 1.952258 s", "1 min 2 s"),
            (5_400_000_000, "1 h 30 min", "1 h 30 min"),
            (3_599_000_001, "59 min 59.000001 s", "1 h"),
            (7 * DAY + 1, "7 d 0.000001 s", "7 d 1 h"),
        ] {
            assert_eq!(Micros(micros).in_words(), exact);
            assert_eq!(Micros(micros).for_people(), rounded_up);
        }
    }

    #[test]
    fn shows_what_it_reads() {
        for text in ["1h30m", "250ms", "1s500ms", "7d", "1us"] {
            assert_eq!(Micros::parse(text).unwrap().to_string(), text);
        }
    }
}
