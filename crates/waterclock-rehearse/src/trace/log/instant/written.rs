//! Dates and times as people write them, in microseconds since the Unix epoch.

use super::civil::Civil;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// `10/Oct/2000:13:55:36 -0700`, as servers log by default.
pub(super) fn of_log(text: &str) -> Option<i64> {
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
pub(super) fn of_standard(text: &str) -> Option<i64> {
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
