//! How errors show values and lists, and suggest what was meant.

use strsim::damerau_levenshtein;
use toml::de::DeValue;

/// Words of other rate limiters that spelling would not find.
const SYNONYMS: &[(&str, &str)] = &[
    ("burst", "capacity"),
    ("max_burst", "capacity"),
    ("size", "capacity"),
    ("period", "per"),
    ("window", "per"),
    ("duration", "per"),
    ("interval", "every"),
    ("drip_rate", "every"),
    ("drip_size", "drip"),
    ("rate", "limit"),
    ("max", "limit"),
    ("requests", "limit"),
    ("count", "limit"),
    ("type", "algorithm"),
    ("tz", "timezone"),
    ("policy", "policies"),
    ("sliding-log", "rolling-window"),
    ("sliding-window-log", "rolling-window"),
    ("sliding-window-counter", "sliding-window"),
];

/// The candidate closest to a misspelt word, if any is close.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let plain_word = plain(word);
    let synonym = SYNONYMS.iter().find(|(foreign, _)| plain(foreign) == plain_word);
    if let Some((_, ours)) = synonym
        && let Some(candidate) = candidates.iter().find(|candidate| *candidate == ours)
    {
        return Some(candidate);
    }
    candidates
        .into_iter()
        .map(|candidate| (distance(&plain_word, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| {
            // A word without one right letter is not a typo.
            let most = (candidate.len().max(word.len()) / 3).max(1);
            *distance <= most && *distance < plain_word.len()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean …?` to end a message with, or an empty string.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates)
        .map(|candidate| format!("; did you mean `{candidate}`?"))
        .unwrap_or_default()
}

/// An unfinished word is as close as one with a single typo.
fn distance(word: &str, candidate: &str) -> usize {
    if word.len() >= 3 && candidate.starts_with(word) {
        1
    } else {
        damerau_levenshtein(word, candidate)
    }
}

/// `minInterval`, `min-interval` and `min_interval` are one word.
fn plain(word: &str) -> String {
    word.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}

/// `a`, `b` or `c`.
pub(crate) fn one_of(words: &[&str]) -> String {
    enumerate(words, "or")
}

/// `a`, `b` and `c`.
pub(crate) fn all_of(words: &[&str]) -> String {
    enumerate(words, "and")
}

fn enumerate(words: &[&str], joiner: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} {joiner} {last}", rest.join(", ")),
    }
}

/// A value of the file, in one line.
pub(crate) fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(integer) => integer.to_string(),
        DeValue::Float(float) => float.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(datetime) => datetime.to_string(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// A string in quotes, cut after 60 characters.
pub fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut start: String = text.chars().take(LONGEST).collect();
    if text.chars().nth(LONGEST).is_some() {
        start.push('…');
    }
    format!("{start:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let keys = ["limit", "per", "capacity", "min_interval", "leaky-bucket"];
        assert_eq!(nearest("capcity", keys), Some("capacity"));
        assert_eq!(nearest("minInterval", keys), Some("min_interval"));
        assert_eq!(nearest("leaky", keys), Some("leaky-bucket"));
        assert_eq!(nearest("burst", keys), Some("capacity"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("x", ["s", "m", "h"]), None);
    }
}
