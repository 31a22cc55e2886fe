//! When a line happened, from the ways in which logs say it.

use tollgate::Timestamp;

use super::civil::Civil;
use super::unit::Unit;
use crate::expr::{Ratio, Value, quoted};

/// The last instant there is, in microseconds.
const LATEST_US: u64 = Timestamp::MAX.as_nanos() / 1_000;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Reads times, and remembers the last: lines of one second say the same.
#[derive(Default)]
pub(super) struct Instants {
    text: String,
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
        if self.text == text && !text.is_empty() {
            return Ok(self.t_us);
        }
        let t_us = of_text(text, unit)?;
        self.text.clear();
        self.text.push_str(text);
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
    in_range(micros.into()).ok_or_else(|| out_of_range(text))
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

/// `10/Oct/2000:13:55:36 -0700`, as servers log by default.
fn of_log(text: &str) -> Option<i64> {
    let mut rest = text;
    let civil = Civil {
        day: digits(&mut rest, 2)?,
        month: {
            sign(&mut rest, "/")?;
            month(&mut rest)?
        },
        year: {
            sign(&mut rest, "/")?;
            digits(&mut rest, 4)?
        },
        hour: {
            sign(&mut rest, ":")?;
            digits(&mut rest, 2)?
        },
        minute: {
            sign(&mut rest, ":")?;
            digits(&mut rest, 2)?
        },
        second: {
            sign(&mut rest, ":")?;
            digits(&mut rest, 2)?
        },
    };
    micros(&civil, rest)
}

/// `2000-10-10T13:55:36.5-07:00`, with a space for the T and without a zone for UTC.
fn of_standard(text: &str) -> Option<i64> {
    let mut rest = text;
    let year = digits(&mut rest, 4)?;
    sign(&mut rest, "-")?;
    let month = digits(&mut rest, 2)?;
    sign(&mut rest, "-")?;
    let day = digits(&mut rest, 2)?;
    let separated = ["T", "t", " "].iter().any(|separator| sign(&mut rest, separator).is_some());
    if !separated {
        return None;
    }
    let hour = digits(&mut rest, 2)?;
    sign(&mut rest, ":")?;
    let minute = digits(&mut rest, 2)?;
    let second = match sign(&mut rest, ":") {
        Some(()) => digits(&mut rest, 2)?,
        None => 0,
    };
    micros(&Civil { year, month, day, hour, minute, second }, rest)
}

/// With what follows the seconds: a fraction and a zone, if any.
fn micros(civil: &Civil, mut rest: &str) -> Option<i64> {
    let mut fraction = 0;
    if sign(&mut rest, ".").or_else(|| sign(&mut rest, ",")).is_some() {
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        let used = rest.get(..count.min(6)).filter(|used| !used.is_empty())?;
        let scale = 10i64.pow(6 - u32::try_from(used.len()).ok()?);
        fraction = used.parse::<i64>().ok()? * scale;
        rest = &rest[count..];
    }
    Some((civil.seconds()? - zone(rest.trim_ascii_start())?) * 1_000_000 + fraction)
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
    is_zone.then(|| ahead * i64::from(hours * 3_600 + minutes * 60))
}

fn digits(rest: &mut &str, count: usize) -> Option<u32> {
    let (digits, more) = rest.split_at_checked(count)?;
    let mut number = 0;
    for byte in digits.bytes() {
        number = number * 10 + u32::from(byte.is_ascii_digit().then(|| byte - b'0')?);
    }
    *rest = more;
    Some(number)
}

fn sign(rest: &mut &str, sign: &str) -> Option<()> {
    *rest = rest.strip_prefix(sign)?;
    Some(())
}

fn month(rest: &mut &str) -> Option<u32> {
    let (name, more) = rest.split_at_checked(3)?;
    let place = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))?;
    *rest = more;
    u32::try_from(place + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<u64, String> {
        Instants::default().read(&Value::text(text), Unit::Auto)
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
