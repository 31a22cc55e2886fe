//! How errors show values and lists, and suggest what was meant.

use strsim::damerau_levenshtein;
use toml::de::DeValue;

/// Words of other rate limiters that spelling would not find. The first of ours that is a candidate is meant.
const SYNONYMS: &[(&str, &str)] = &[
    ("burst", "capacity"),
    ("max_burst", "capacity"),
    ("burst_size", "capacity"),
    ("burst_capacity", "capacity"),
    ("bucket_size", "capacity"),
    ("size", "capacity"),
    ("period", "per"),
    ("window", "per"),
    ("window_ms", "per"),
    ("window_size", "per"),
    ("duration", "per"),
    ("interval", "per"),
    ("interval", "every"),
    ("time_window", "per"),
    ("ttl", "per"),
    ("refill_period", "per"),
    ("refill_interval", "per"),
    ("limit_refresh_period", "per"),
    ("drip_rate", "every"),
    ("drip_size", "drip"),
    ("rate", "limit"),
    ("max", "limit"),
    ("max_in_interval", "limit"),
    ("max_requests", "limit"),
    ("points", "limit"),
    ("requests", "limit"),
    ("requests_per_unit", "limit"),
    ("limit_for_period", "limit"),
    ("tokens_per_interval", "limit"),
    ("refill_rate", "limit"),
    ("replenish_rate", "limit"),
    ("count", "limit"),
    ("min_difference", "min_interval"),
    ("type", "algorithm"),
    ("strategy", "algorithm"),
    ("tz", "timezone"),
    ("policy", "policies"),
    ("time-bucket", "fixed-window"),
    ("time-window", "fixed-window"),
    ("window-counter", "fixed-window"),
    ("fixed-window-counter", "fixed-window"),
    ("sliding-log", "rolling-window"),
    ("sliding-window-log", "rolling-window"),
    ("moving-window", "rolling-window"),
    ("sliding-window-counter", "sliding-window"),
    ("generic-cell-rate", "gcra"),
];

/// Words that count otherwise elsewhere, and how ours follows from them.
const CONVERSIONS: &[(&str, &str)] = &[
    ("burst", "= burst + 1 in redis-cell and other systems that do not count the first request"),
    ("max_burst", "= max_burst + 1"),
    ("requests_per_unit", "with `per` for its unit"),
    ("window_ms", "as a duration such as \"250ms\""),
];

/// The candidate closest to a misspelt word, if any is close.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    if let Some(ours) = ours(word, &candidates) {
        return Some(ours);
    }
    let plain_word = plain(word);
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

/// Our word for another rate limiter's.
fn ours<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word = plain(word);
    let mut meant = SYNONYMS.iter().filter(|(foreign, _)| plain(foreign) == word);
    meant.find_map(|(_, ours)| candidates.iter().find(|candidate| *candidate == ours).copied())
}

/// How long names of policies are at most.
const MAX_NAME: usize = 64;
/// How many names an error lists.
const MOST_NAMES: usize = 12;

/// `a`, `b` and `c`: the names there are, the nearest to a misspelt one first, and how many more if there are many.
#[must_use]
pub fn nearest_first(word: &str, names: &[&str]) -> String {
    // A server says what it likes, and distances take the product of both lengths.
    let is_name = |name: &&str| name.len() <= MAX_NAME;
    let word = plain(&word.chars().take(MAX_NAME).collect::<String>());
    let mut names: Vec<&str> = names.iter().copied().filter(is_name).collect();
    names.sort_by_cached_key(|name| distance(&word, &plain(name)));
    match names.split_at_checked(MOST_NAMES) {
        Some((first, rest @ [_, ..])) => {
            let quoted: Vec<String> = first.iter().map(|name| format!("`{name}`")).collect();
            format!("{} and {} more", quoted.join(", "), rest.len())
        }
        _ => all_of(&names),
    }
}

/// `; did you mean …?` to end a message with, or an empty string.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map(|candidate| meant(word, candidate)).unwrap_or_default()
}

/// The same for words of other rate limiters only.
pub(crate) fn synonym<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    ours(word, &candidates).map(|candidate| meant(word, candidate))
}

fn meant(word: &str, candidate: &str) -> String {
    let word = plain(word);
    match CONVERSIONS.iter().find(|(foreign, _)| plain(foreign) == word) {
        Some((_, how)) => format!("; did you mean `{candidate}` ({how})?"),
        None => format!("; did you mean `{candidate}`?"),
    }
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
    fn the_nearest_name_comes_first() {
        assert_eq!(nearest_first("logn", &["api", "login"]), "`login` and `api`");
        let names: Vec<String> = (0..20).map(|number| format!("policy-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let list = nearest_first("polcy-19", &names);
        assert!(list.starts_with("`policy-19`, ") && list.ends_with(" and 8 more"), "{list}");
    }

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
