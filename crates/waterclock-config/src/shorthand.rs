//! Limits in a few words: `"10/s"`, `"100 per minute"`, `"1000/1h sliding-window"`.

use super::algorithm::{ALGORITHMS, CALENDAR, unknown};
use super::duration::Micros;
use super::fields::LimitFields;
use super::schema::MAX_UNITS;
use super::suggest::did_you_mean;
use super::suggest::quoted;

/// A parsed shorthand.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shorthand {
    pub(crate) limit: u64,
    pub(crate) per: Micros,
    pub(crate) algorithm: &'static str,
}

impl Shorthand {
    pub(crate) fn fields(&self) -> LimitFields {
        LimitFields {
            algorithm: self.algorithm.to_owned(),
            limit: Some(self.limit),
            per_us: Some(self.per.0),
            ..LimitFields::default()
        }
    }
}

/// An error is a whole sentence.
pub(crate) fn parse(text: &str) -> Result<Shorthand, String> {
    let not_a_limit = || {
        format!(
            "{} is not a limit; write \"10/s\", \"100 per minute\" or \"1000/1h sliding-window\"",
            quoted(text)
        )
    };
    let (amount, rest) =
        text.split_once('/').or_else(|| text.split_once(" per ")).ok_or_else(not_a_limit)?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let more = words.windows(2).take_while(|pair| goes_on(pair[0], pair[1])).count();
    let (period, algorithm) = words.split_at_checked(1 + more).ok_or_else(not_a_limit)?;
    Ok(Shorthand {
        limit: limit(amount.trim(), text)?,
        per: period_of(&period.join(" "))?,
        algorithm: algorithm_of(algorithm, text)?,
    })
}

/// "10 seconds" and "1h 30m" are one period.
fn goes_on(before: &str, word: &str) -> bool {
    let is_bare = before.chars().all(|character| character.is_ascii_digit() || character == '.');
    let is_algorithm = ALGORITHMS.iter().any(|algorithm| algorithm.word == word);
    let is_amount = word.starts_with(|first: char| first.is_ascii_digit());
    is_amount || Micros::one(word).is_some() || (is_bare && !is_algorithm)
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
    if let Some(period) = Micros::one(text) {
        return Ok(period);
    }
    if let Some(word) = CALENDAR.iter().find(|word| **word == text.trim_end_matches('s')) {
        return Err(format!(
            "a {word} is not always as long; use a table with algorithm = \"fixed-window\", align = \"calendar\" and per = \"{word}\""
        ));
    }
    let is_word = text.chars().all(char::is_alphabetic);
    if is_word {
        let hint = did_you_mean(text, Micros::unit_names());
        return Err(format!(
            "unknown period {}; use s, m, h, d, w or a duration such as 1h30m{hint}",
            quoted(text)
        ));
    }
    Micros::parse(text).map_err(|rest| format!("the period {rest}"))
}

/// The algorithm that the last words of a shorthand name: one word, or none for the default.
fn algorithm_of(words: &[&str], text: &str) -> Result<&'static str, String> {
    let Some((word, extra)) = words.split_first() else { return Ok("gcra") };
    let rates: Vec<&'static str> = ALGORITHMS
        .iter()
        .filter(|algorithm| algorithm.needs == ["limit", "per"])
        .map(|algorithm| algorithm.word)
        .collect();
    let known = ALGORITHMS.iter().find(|algorithm| algorithm.word == *word);
    match (known.map(|algorithm| algorithm.word), extra.first()) {
        (None, _) => Err(unknown(&words.join(" "), &rates)),
        (Some(_), Some(extra)) => Err(format!(
            "unexpected {} in {}; write the limit as a table for more than a rate and an algorithm",
            quoted(extra),
            quoted(text)
        )),
        (Some(word), None) if rates.contains(&word) => Ok(word),
        (Some(word), None) => {
            Err(format!("`{word}` takes more than a rate; write the limit as a table"))
        }
    }
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
        assert_eq!(parse("10/seconds"), gcra(10, 1_000_000));
        assert_eq!(parse("5 per minutes"), gcra(5, 60_000_000));
        assert_eq!(parse("5 per 10 seconds"), gcra(5, 10_000_000));
        assert_eq!(parse("5 / 1h 30m"), gcra(5, 5_400_000_000));
        assert_eq!(parse("5 per 10 seconds quota").unwrap().algorithm, "quota");
        assert_eq!(parse("1_000/1h30m"), gcra(1000, 5_400_000_000));
        assert_eq!(parse("1000/1h sliding-window").unwrap().algorithm, "sliding-window");
    }

    #[test]
    fn errors_say_what_to_write() {
        let cases = [
            ("ten a second", "is not a limit"),
            ("ten/s", "must be a whole number"),
            ("1.5/s", "must be a whole number"),
            ("-1/s", "must not be negative"),
            ("0/s", "at least 1"),
            ("9007199254740992/s", "at most 9007199254740991"),
            ("10/", "is not a limit"),
            ("10/0s", "must be longer than 0"),
            ("10/month", "align = \"calendar\""),
            ("10/months", "per = \"month\""),
            ("10/minuts", "did you mean `minute`?"),
            ("10/10 secnds", "\"10 secnds\"; did you mean `seconds`?"),
            ("10/10 gcra", "needs a unit"),
            ("10/s sliding", "did you mean `sliding-window`?"),
            ("10/s sliding window", "\"sliding window\"; did you mean `sliding-window`?"),
            ("10/s leaky-bucket", "as a table"),
            ("10/s gcra fast", "unexpected \"fast\" in"),
        ];
        for (text, expected) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
