//! Limits in a few words: `"10/s"`, `"100 per minute"`, `"1000/1h sliding-window"`.

use super::algorithm::{ALGORITHMS, CALENDAR};
use super::key::MAX_UNITS;
use super::micros::Micros;
use super::nearest::did_you_mean;
use super::spec::{AlgorithmSpec, Window};
use super::wording::{one_of, quoted};

/// The words for a period of one unit.
const PERIODS: &[(&[&str], u64)] = &[
    (&["us", "µs", "μs"], 1),
    (&["ms"], 1_000),
    (&["s", "sec", "second"], 1_000_000),
    (&["m", "min", "minute"], 60_000_000),
    (&["h", "hour"], 3_600_000_000),
    (&["d", "day"], 86_400_000_000),
    (&["w", "week"], 604_800_000_000),
];

/// What a shorthand says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shorthand {
    pub(crate) limit: u64,
    pub(crate) per: Micros,
    pub(crate) algorithm: &'static str,
}

impl Shorthand {
    pub(crate) fn spec(&self) -> AlgorithmSpec {
        let (limit, per) = (self.limit, self.per);
        match self.algorithm {
            "fixed-window" => AlgorithmSpec::FixedWindow { limit, window: Window::First(per) },
            "sliding-window" => AlgorithmSpec::SlidingWindow { limit, per },
            "rolling-window" => AlgorithmSpec::RollingWindow { limit, per, buckets: None },
            "quota" => AlgorithmSpec::Quota { limit, per },
            "even-slots" => AlgorithmSpec::EvenSlots { limit, per },
            _ => AlgorithmSpec::Gcra { limit, per, capacity: limit, overdraft: false },
        }
    }
}

/// The complaint is a whole sentence.
pub(crate) fn parse(text: &str) -> Result<Shorthand, String> {
    let not_a_limit = || {
        format!(
            "{} is not a limit; write \"10/s\", \"100 per minute\" or \"1000/1h sliding-window\"",
            quoted(text)
        )
    };
    let (amount, rest) =
        text.split_once('/').or_else(|| text.split_once(" per ")).ok_or_else(not_a_limit)?;
    let mut words = rest.split_whitespace();
    let period = words.next().ok_or_else(not_a_limit)?;
    let algorithm = words.next();
    if let Some(extra) = words.next() {
        return Err(format!(
            "{} says {} too much; use a table for more than a rate and an algorithm",
            quoted(text),
            quoted(extra)
        ));
    }
    Ok(Shorthand {
        limit: limit(amount.trim(), text)?,
        per: period_of(period)?,
        algorithm: algorithm.map_or(Ok("gcra"), algorithm_of)?,
    })
}

fn limit(amount: &str, text: &str) -> Result<u64, String> {
    if amount.starts_with('-') {
        return Err(format!("the limit in {} must not be negative", quoted(text)));
    }
    let digits = amount.replace('_', "");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "the limit in {} must be a whole number; found {}",
            quoted(text),
            quoted(amount)
        ));
    }
    match digits.parse::<u64>() {
        Ok(0) => Err(format!("the limit in {} must be at least 1", quoted(text))),
        Ok(limit) if limit <= MAX_UNITS => Ok(limit),
        _ => Err(format!("the limit in {} must be at most {MAX_UNITS}", quoted(text))),
    }
}

fn period_of(text: &str) -> Result<Micros, String> {
    if let Some((_, micros)) = PERIODS.iter().find(|(names, _)| names.contains(&text)) {
        return Ok(Micros(*micros));
    }
    if CALENDAR.contains(&text) {
        return Err(format!(
            "a {text} is not always as long; use a table with algorithm = \"fixed-window\", align = \"calendar\" and per = \"{text}\""
        ));
    }
    let is_word = text.chars().all(char::is_alphabetic);
    if is_word {
        let names = PERIODS.iter().flat_map(|(names, _)| names.iter().copied());
        let hint = did_you_mean(text.trim_end_matches('s'), names);
        return Err(format!(
            "unknown period {}; use s, m, h, d, w or a duration such as 1h30m{hint}",
            quoted(text)
        ));
    }
    Micros::parse(text).map_err(|rest| format!("the period {rest}"))
}

fn algorithm_of(text: &str) -> Result<&'static str, String> {
    let rates: Vec<&'static str> = ALGORITHMS
        .iter()
        .filter(|algorithm| algorithm.needs == ["limit", "per"])
        .map(|algorithm| algorithm.word)
        .collect();
    if let Some(word) = rates.iter().find(|word| **word == text) {
        return Ok(word);
    }
    if ALGORITHMS.iter().any(|algorithm| algorithm.word == text) {
        return Err(format!("`{text}` takes more than a rate; write the limit as a table"));
    }
    Err(format!(
        "unknown algorithm {}; it must be {}{}",
        quoted(text),
        one_of(&rates),
        did_you_mean(text, rates.iter().copied())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gcra(limit: u64, micros: u64) -> Result<Shorthand, String> {
        Ok(Shorthand { limit, per: Micros(micros), algorithm: "gcra" })
    }

    #[test]
    fn reads_rates() {
        assert_eq!(parse("10/s"), gcra(10, 1_000_000));
        assert_eq!(parse("10 / sec"), gcra(10, 1_000_000));
        assert_eq!(parse("100 per minute"), gcra(100, 60_000_000));
        assert_eq!(parse("5/day"), gcra(5, 86_400_000_000));
        assert_eq!(parse("1_000/1h30m"), gcra(1000, 5_400_000_000));
        assert_eq!(parse("1000/1h sliding-window").unwrap().algorithm, "sliding-window");
    }

    #[test]
    fn complains_clearly() {
        let complaints = [
            ("ten a second", "is not a limit"),
            ("ten/s", "must be a whole number"),
            ("1.5/s", "must be a whole number"),
            ("-1/s", "must not be negative"),
            ("0/s", "at least 1"),
            ("9007199254740992/s", "at most 9007199254740991"),
            ("10/", "is not a limit"),
            ("10/0s", "must be longer than 0"),
            ("10/month", "align = \"calendar\""),
            ("10/minutes", "did you mean `minute`?"),
            ("10/s sliding", "did you mean `sliding-window`?"),
            ("10/s leaky-bucket", "as a table"),
            ("10/s gcra fast", "\"fast\" too much"),
        ];
        for (text, complaint) in complaints {
            let error = parse(text).unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
