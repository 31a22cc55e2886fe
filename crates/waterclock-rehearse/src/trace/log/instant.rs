//! When a line happened, in the forms that logs write times.

use std::borrow::Cow;

use jiff::Timestamp as Instant;
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;
use waterclock::Timestamp;
use waterclock_core::Decimal;

use crate::expr::{Value, quoted};
use crate::terminal::shown;

/// The last instant there is, in microseconds.
const LATEST_US: u64 = Timestamp::MAX.as_nanos() / 1_000;

/// Reads times, and remembers the last: the lines of one second have the same.
#[derive(Default)]
pub(super) struct Instants {
    text: String,
    unit: Option<TimeUnit>,
    t_us: u64,
}

impl Instants {
    /// Microseconds since the Unix epoch.
    pub(super) fn read(&mut self, value: &Value<'_>, unit: TimeUnit) -> Result<u64, String> {
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

fn of_text(text: &str, unit: TimeUnit) -> Result<u64, String> {
    let trimmed = text.trim_ascii().trim_start_matches('[').trim_end_matches(']');
    if let Ok(number) = trimmed.parse() {
        return of_number(number, unit);
    }
    let not_a_time = || {
        let examples = "10/Oct/2025:13:55:36 +0200, 2025-10-10T13:55:36Z or Unix time";
        format!("{} is not a time such as {examples}", quoted(text))
    };
    let micros = of_log(trimmed).or_else(|| of_standard(trimmed)).ok_or_else(not_a_time)?;
    in_range(micros.into()).ok_or_else(|| out_of_range(&shown(trimmed)))
}

fn of_number(number: Decimal, unit: TimeUnit) -> Result<u64, String> {
    let micros = unit.micros(number);
    micros.and_then(in_range).ok_or_else(|| out_of_range(&number.to_string()))
}

fn in_range(micros: i128) -> Option<u64> {
    u64::try_from(micros).ok().filter(|micros| *micros <= LATEST_US)
}

fn out_of_range(text: &str) -> String {
    format!("the time {text} is before 1970 or after 2116")
}

/// The unit of times that are numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// By the end of the field's name (`_s`, `_ms`, `_us`, `_ns`), or else by size: below 10^11 seconds, below 10^14
    /// milliseconds, below 10^17 microseconds, else nanoseconds.
    #[default]
    Auto,
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl TimeUnit {
    /// The unit that a field's name tells.
    pub(super) fn of_field(self, name: &str) -> TimeUnit {
        match name.rsplit_once('_') {
            _ if self != TimeUnit::Auto => self,
            Some((_, "s")) => TimeUnit::S,
            Some((_, "ms")) => TimeUnit::Ms,
            Some((_, "us")) => TimeUnit::Us,
            Some((_, "ns")) => TimeUnit::Ns,
            _ => TimeUnit::Auto,
        }
    }

    /// Whole microseconds, rounded down.
    fn micros(self, number: Decimal) -> Option<i128> {
        match self {
            TimeUnit::Auto => TimeUnit::of_size(number).micros(number),
            TimeUnit::S => number.times(Decimal::from(1_000_000)).map(Decimal::floor),
            TimeUnit::Ms => number.times(Decimal::from(1_000)).map(Decimal::floor),
            TimeUnit::Us => Some(number.floor()),
            TimeUnit::Ns => Some(number.floor().div_euclid(1_000)),
        }
    }

    /// Seconds until the year 5138, and all others from March 1973 on.
    fn of_size(number: Decimal) -> TimeUnit {
        match number.floor().unsigned_abs() {
            0..100_000_000_000 => TimeUnit::S,
            100_000_000_000..100_000_000_000_000 => TimeUnit::Ms,
            100_000_000_000_000..100_000_000_000_000_000 => TimeUnit::Us,
            _ => TimeUnit::Ns,
        }
    }
}

/// `10/Oct/2000:13:55:36 -0700`, as servers log by default.
fn of_log(text: &str) -> Option<i64> {
    let (date, time) = text.split_at_checked("10/Oct/2000".len())?;
    let date = Date::strptime("%d/%b/%Y", date).ok()?;
    of_standard(&format!("{date}T{}", time.strip_prefix(':')?))
}

/// `2000-10-10T13:55:36.5-07:00`, with a space for the T and before the zone, and without a zone for UTC.
fn of_standard(text: &str) -> Option<i64> {
    let time = match text.rsplit_once(' ') {
        Some((time, "UTC" | "GMT")) => Cow::Owned(format!("{time}Z")),
        Some((time, zone)) if zone.starts_with(['+', '-']) => Cow::Owned(format!("{time}{zone}")),
        _ => Cow::Borrowed(text),
    };
    let time = cut_fraction(time);
    // A date without a time of day is not an instant.
    let in_utc = || time.contains(':').then(|| time.parse::<DateTime>().ok())?;
    let instant = time.parse::<Instant>().ok();
    let instant = instant.or_else(|| in_utc().and_then(|time| Offset::UTC.to_timestamp(time).ok()));
    instant.map(Instant::as_microsecond)
}

/// At most nine digits of a fraction: more are valid, and too fine to matter.
fn cut_fraction(text: Cow<'_, str>) -> Cow<'_, str> {
    let Some(start) = text.find(['.', ',']).map(|point| point + 1) else { return text };
    let digits = text[start..].bytes().take_while(u8::is_ascii_digit).count();
    if digits <= 9 {
        return text;
    }
    format!("{}{}", &text[..start + 9], &text[start + digits..]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<u64, String> {
        Instants::default().read(&Value::text(text), TimeUnit::Auto)
    }

    #[test]
    fn ways_to_say_it() {
        // 2000-10-10T20:55:36Z
        let t_us = 971_211_336_000_000;
        for text in [
            "10/Oct/2000:13:55:36 -0700",
            "[10/Oct/2000:13:55:36 -0700]",
            "10/oct/2000:20:55:36",
            "2000-10-10T20:55:36Z",
            "2000-10-10T22:55:36+02:00",
            "2000-10-10 20:55:36",
            "2000-10-10 20:55:36 UTC",
            "2000-10-11T02:25:36+0530",
            "2000-10-10T20:55:36.000000000Z",
            "971211336",
            "971211336.000",
            "971211336000",
            "971211336000000",
            "971211336000000000",
        ] {
            assert_eq!(read(text), Ok(t_us), "{text}");
        }
        assert_eq!(read("2000-10-10T20:55:36,25Z"), Ok(t_us + 250_000));
        assert_eq!(read("10/Oct/2000:13:55:36.1234567 -0700"), Ok(t_us + 123_456));
        assert_eq!(read("971211336.25"), Ok(t_us + 250_000));
        assert_eq!(read("2000-10-10T20:55Z"), Ok(t_us - 36_000_000));
    }

    /// The same text in fields of two units is not the same time.
    #[test]
    fn the_last_is_remembered_with_its_unit() {
        let mut instants = Instants::default();
        for (unit, expected) in
            [(TimeUnit::S, 5_000_000), (TimeUnit::S, 5_000_000), (TimeUnit::Us, 5)]
        {
            assert_eq!(instants.read(&Value::text("5"), unit), Ok(expected));
        }
    }

    #[test]
    fn what_is_no_time() {
        for text in [
            "",
            "-",
            "[",
            "now",
            "10/Okt/2000:13:55:36 -0700",
            "31/Feb/2000:00:00:00 +0000",
            "10/Oct/2000:13:55:36 -07:0",
            "10/Oct/2000:13:55:36 +9900",
            "2000-10-10",
            "2000-10-10X00:00:00",
            "2000-10-10T25:00:00Z",
            "1969-12-31T23:59:59Z",
            "-1",
            "9999-12-31T00:00:00Z",
            "2000-10-10T20:55:36.Z",
            "10/Oct/2000:13:55:36 é",
            "1é/Oct/2000:13:55:36",
        ] {
            assert!(read(text).is_err(), "{text}: {:?}", read(text));
        }
    }

    /// By another implementation.
    #[test]
    fn random_times_agree() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let micros = rng.i64(0..4_000_000_000_000_000);
            let time = jiff::Timestamp::from_microsecond(micros).unwrap();
            assert_eq!(read(&time.to_string()), u64::try_from(micros).map_err(|e| e.to_string()));
        }
    }

    #[test]
    fn nothing_panics() {
        let mut rng = fastrand::Rng::with_seed(8);
        let alphabet: Vec<char> = "0123456789/:-+.TZ []Octé".chars().collect();
        for _ in 0..20_000 {
            let length = rng.usize(0..30);
            let text: String =
                (0..length).map(|_| alphabet[rng.usize(0..alphabet.len())]).collect();
            let _ = read(&text);
        }
    }
}
