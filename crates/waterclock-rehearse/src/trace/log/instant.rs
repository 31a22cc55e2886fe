//! When a line happened, in the forms that logs write times.

use jiff::civil::DateTime;
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TimeUnit {
    /// By the end of the field's name (_s, _ms, _us, _ns), or else by size: below 10^11 seconds, below 10^14
    /// milliseconds, below 10^17 microseconds, else nanoseconds
    #[default]
    Auto,
    /// Seconds
    S,
    /// Milliseconds
    Ms,
    /// Microseconds
    Us,
    /// Nanoseconds
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

// Texts are parsed by hand: jiff's parsers take five to twenty times as long, and a log has one time per line. The
// calendar is jiff's.

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// `10/Oct/2000:13:55:36 -0700`, as servers log by default.
fn of_log(text: &str) -> Option<i64> {
    let mut rest = text;
    let day = digits(&mut rest, 2)?;
    sign(&mut rest, "/")?;
    let month = month(&mut rest)?;
    sign(&mut rest, "/")?;
    let year = digits(&mut rest, 4)?;
    sign(&mut rest, ":")?;
    of_time([year, month, day], rest)
}

/// `2000-10-10T13:55:36.5-07:00`, with a space for the T and without a zone for UTC.
fn of_standard(text: &str) -> Option<i64> {
    let mut rest = text;
    let year = digits(&mut rest, 4)?;
    sign(&mut rest, "-")?;
    let month = digits(&mut rest, 2)?;
    sign(&mut rest, "-")?;
    let day = digits(&mut rest, 2)?;
    ["T", "t", " "].iter().find_map(|separator| sign(&mut rest, separator))?;
    of_time([year, month, day], rest)
}

/// A date with the time of day that follows it: seconds, a fraction and a zone are optional.
fn of_time([year, month, day]: [i16; 3], mut rest: &str) -> Option<i64> {
    let hour = digits(&mut rest, 2)?;
    sign(&mut rest, ":")?;
    let minute = digits(&mut rest, 2)?;
    let second = match sign(&mut rest, ":") {
        Some(()) => digits(&mut rest, 2)?,
        None => 0,
    };
    let mut fraction = 0;
    if sign(&mut rest, ".").or_else(|| sign(&mut rest, ",")).is_some() {
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        let used = rest.get(..count.min(6)).filter(|used| !used.is_empty())?;
        let scale = 10i64.pow(6 - u32::try_from(used.len()).ok()?);
        fraction = used.parse::<i64>().ok()? * scale;
        rest = &rest[count..];
    }
    // A leap second is the first of the next minute.
    let (second, leap) = if second == 60 { (59, 1) } else { (second, 0) };
    let [month, day, hour, minute, second] =
        [month, day, hour, minute, second].map(|number| i8::try_from(number).unwrap_or(-1));
    let civil = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    let seconds = Offset::UTC.to_timestamp(civil).ok()?.as_second() + leap;
    Some((seconds - zone(rest.trim_ascii_start())?) * 1_000_000 + fraction)
}

/// How far a zone is ahead of UTC, in seconds.
fn zone(text: &str) -> Option<i64> {
    if ["", "Z", "z", "UTC", "GMT"].contains(&text) {
        return Some(0);
    }
    let (ahead, mut rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let hours = digits(&mut rest, 2)?;
    let _ = sign(&mut rest, ":");
    let minutes = if rest.is_empty() { 0 } else { digits(&mut rest, 2)? };
    let is_zone = rest.is_empty() && hours < 24 && minutes < 60;
    is_zone.then(|| ahead * (i64::from(hours) * 3_600 + i64::from(minutes) * 60))
}

fn digits(rest: &mut &str, count: usize) -> Option<i16> {
    let (digits, more) = rest.split_at_checked(count)?;
    let mut number = 0;
    for byte in digits.bytes() {
        number = number * 10 + i16::from(byte.is_ascii_digit().then(|| byte - b'0')?);
    }
    *rest = more;
    Some(number)
}

fn sign(rest: &mut &str, sign: &str) -> Option<()> {
    *rest = rest.strip_prefix(sign)?;
    Some(())
}

fn month(rest: &mut &str) -> Option<i16> {
    let (name, more) = rest.split_at_checked(3)?;
    let place = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))?;
    *rest = more;
    i16::try_from(place + 1).ok()
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

    #[test]
    fn leap_seconds_and_dates_that_do_not_exist() {
        let minute = read("2016-12-31T23:59:00Z").unwrap();
        assert_eq!(read("2016-12-31T23:59:60Z"), Ok(minute + 60_000_000));
        for text in ["2023-02-29T00:00:00Z", "2023-04-31T00:00:00Z", "2023-13-01T00:00:00Z"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read("2024-02-29T00:00:00Z").is_ok() && read("2023-01-01T00:00:61Z").is_err());
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
