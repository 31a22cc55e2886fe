//! Which algorithms there are, and which keys each of them takes.

use waterclock::MAX_LOG;

use super::limit::accept_name;
use super::schema::{Key, Shape, UNITS};
use super::suggest::nearest;
use super::suggest::{one_of, quoted};

/// An algorithm's name in the file and the keys that are its own.
pub(crate) struct AlgorithmWord {
    pub(crate) word: &'static str,
    pub(crate) needs: &'static [&'static str],
    pub(crate) takes: &'static [&'static str],
}

impl AlgorithmWord {
    /// A limit of it in messages: "a `gcra` limit".
    pub(crate) fn a_limit(&self) -> String {
        let article = if self.word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        format!("{article} `{}` limit", self.word)
    }
}

/// The message about a word that is none of these algorithms.
pub(crate) fn unknown(text: &str, words: &[&str]) -> String {
    let hint = match nearest(text, words.iter().copied()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("it must be {}", one_of(words)),
    };
    format!("unknown algorithm {}; {hint}", quoted(text))
}

/// Every algorithm that runs, in the order of the manual.
pub(crate) const ALGORITHMS: &[AlgorithmWord] = &[
    algorithm("gcra", &["limit", "per"], &["limit", "per", "capacity", "overdraft"]),
    algorithm("token-bucket", &["limit", "per"], &["limit", "per", "capacity", "overdraft"]),
    algorithm("leaky-bucket", &["capacity"], &["capacity", "drip", "every", "overdraft"]),
    algorithm("fixed-window", &["limit", "per"], &["limit", "per", "align", "timezone"]),
    algorithm("sliding-window", &["limit", "per"], &["limit", "per"]),
    algorithm("rolling-window", &["limit", "per"], &["limit", "per", "buckets"]),
    algorithm("quota", &["limit", "per"], &["limit", "per"]),
    algorithm("even-slots", &["limit", "per"], &["limit", "per"]),
    algorithm("min-interval", &["every"], &["every"]),
    algorithm(
        "error-rate",
        &["threshold", "per", "min_samples", "cool_down"],
        &["threshold", "per", "min_samples", "cool_down"],
    ),
    algorithm("concurrency", &["limit", "lease"], &["limit", "lease"]),
    algorithm(
        "legacy",
        &[],
        &["max", "duration", "min_interval", "size", "drip_rate", "drip_size"],
    ),
];

pub(crate) const WORDS: &[&str] = &words();

const fn words() -> [&'static str; ALGORITHMS.len()] {
    let mut words = [""; ALGORITHMS.len()];
    let mut place = 0;
    while place < words.len() {
        words[place] = ALGORITHMS[place].word;
        place += 1;
    }
    words
}

/// The keys that every limit takes.
pub(crate) const COMMON: &[&str] = &["name", "algorithm", "min_interval", "unit", "shadow"];

/// Where the windows of a fixed window start.
pub(crate) const ALIGN: &[&str] = &["first", "epoch", "calendar"];

/// The windows of a calendar.
pub(crate) const CALENDAR: &[&str] = &["day", "week", "month", "year"];

/// Every key a limit can have.
pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "name",
        Shape::Syntax(accept_name),
        "What refusals call it; by default its algorithm, made unique.",
    ),
    Key::new("algorithm", Shape::Word(WORDS), "How it counts.").such_as("\"gcra\""),
    Key::new("limit", UNITS, "Units per period.").such_as("10"),
    Key::new(
        "per",
        Shape::Duration,
        "The period; for a calendar window: day, week, month or year.",
    )
    .such_as("\"1s\""),
    Key::new("capacity", UNITS, "Units that may be used at once; by default the limit.")
        .such_as("10"),
    Key::new(
        "overdraft",
        Shape::Flag,
        "Admit any cost whenever one unit would pass, and let the key go into debt.",
    )
    .default("false"),
    Key::new("drip", UNITS, "Units that leave at once.").default("1"),
    Key::new("every", Shape::Duration, "Time between two drips, or between two admissions.")
        .default("\"1s\"")
        .such_as("\"1s\""),
    Key::new("align", Shape::Word(ALIGN), "Where windows start.").default("\"first\""),
    Key::new("timezone", Shape::Text, "The time zone of a calendar window, such as Europe/Berlin.")
        .default("\"UTC\""),
    Key::new(
        "buckets",
        Shape::Whole { least: 1, most: MAX_LOG },
        "Cells per period; without it, an exact log.",
    ),
    Key::new(
        "threshold",
        Shape::Percent,
        "The share of errors among the reports at which it opens.",
    )
    .such_as("\"50%\""),
    Key::new(
        "min_samples",
        Shape::Whole { least: 1, most: MAX_LOG },
        "Reports that there must be within the period before it opens.",
    )
    .such_as("20"),
    Key::new(
        "cool_down",
        Shape::Duration,
        "How long it stays open before it lets a probe through.",
    )
    .such_as("\"10s\""),
    Key::new("lease", Shape::Duration, "How long one may be held at most.").such_as("\"30s\""),
    Key::new("max", UNITS, "Old limits: units per duration."),
    Key::new(
        "duration",
        Shape::Milliseconds,
        "Old limits: the period, a duration or milliseconds.",
    ),
    Key::new("size", Shape::Factor, "Old limits: units that may be used at once.").such_as("10"),
    Key::new(
        "drip_rate",
        Shape::Milliseconds,
        "Old limits: time between two drips, a duration or milliseconds.",
    )
    .default("1000"),
    Key::new("drip_size", Shape::Factor, "Old limits: units that leave at once.").default("1"),
    Key::new("min_interval", Shape::Duration, "Also keep two admissions at least this far apart."),
    Key::new("unit", Shape::Syntax(accept_name), "What it counts.").default("\"requests\""),
    Key::new("shadow", Shape::Flag, "Decide and report, never refuse.").default("false"),
];

const fn algorithm(
    word: &'static str,
    needs: &'static [&'static str],
    takes: &'static [&'static str],
) -> AlgorithmWord {
    AlgorithmWord { word, needs, takes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_of_the_core_can_be_written() {
        assert!(waterclock::Algorithm::NAMES.iter().all(|name| WORDS.contains(name)));
    }

    #[test]
    fn every_key_has_an_owner() {
        for key in KEYS {
            let owned = ALGORITHMS.iter().any(|algorithm| algorithm.takes.contains(&key.name));
            assert!(owned || COMMON.contains(&key.name), "{}", key.name);
        }
    }
}
