//! "Did you mean …?"

use strsim::damerau_levenshtein;

/// Words of other rate limiters, for which spelling is no help.
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

/// The candidate a person who wrote `word` most likely meant, if any is close.
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
            // A word of which no letter is right is not misspelt.
            let most = (candidate.len().max(word.len()) / 3).max(1);
            *distance <= most && *distance < plain_word.len()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The question to end a sentence with, or nothing.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates)
        .map(|candidate| format!("; did you mean `{candidate}`?"))
        .unwrap_or_default()
}

/// A word somebody left unfinished is as close as a misspelt one.
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
