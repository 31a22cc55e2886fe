//! One limit in plain English: what it admits, and the most it can admit in any window.

use std::time::Duration;

use waterclock::{Algorithm, Align, CalendarUnit, Limit};

use crate::Micros;
use crate::fields::Percent;

/// What people read about a limit.
struct Words {
    /// What it admits, in a sentence.
    admits: String,
    /// Its numbers and no more.
    short: String,
    /// The proven most that it admits in any window of length D.
    bound: String,
    surprise: Option<Surprise>,
}

/// What the author of a limit may not expect.
pub(super) struct Surprise {
    pub(super) code: &'static str,
    pub(super) units: u64,
    /// Completes "limit `x` …".
    pub(super) words: String,
}

impl Surprise {
    /// Of a capacity of 1.
    fn capacity_of_one(gap: &str) -> Surprise {
        let words =
            format!("has a capacity of 1: a request less than {gap} after another one is refused");
        Surprise { code: "capacity-one", units: 1, words }
    }
}

/// The table of English: the only place outside the core that tells algorithms apart for people.
fn words(limit: &Limit) -> Words {
    let units = |count: u64| counted(count, limit.unit());
    let (admits, short, bound, surprise) = match limit.algorithm() {
        Algorithm::Gcra(gcra) if gcra.is_leaky_bucket() => {
            return leaky(limit, gcra.capacity(), 1, gcra.period());
        }
        Algorithm::LeakyBucket(bucket) => {
            return leaky(limit, bucket.capacity(), bucket.drip(), bucket.period());
        }
        Algorithm::Gcra(gcra) => {
            let (limit, per, capacity) = (gcra.limit(), in_words(gcra.period()), gcra.capacity());
            let one = share(gcra.period(), 1, limit);
            let surprise = (capacity == 1).then(|| Surprise::capacity_of_one(&one));
            let rate = format!("{limit} per {per}");
            (
                format!(
                    "{} per {per} on average and up to {capacity} at once; one returns every {one}, a spent capacity within {}.",
                    units(limit),
                    share(gcra.period(), capacity, limit)
                ),
                if limit == capacity { rate } else { format!("{rate}, capacity {capacity}") },
                format!("at most {capacity} + {limit}·D/{per} in any window of length D"),
                surprise,
            )
        }
        Algorithm::FixedWindow(window) => {
            return fixed(limit, window.limit(), window.period(), window.align());
        }
        Algorithm::SlidingWindow(window) => {
            let (limit, per) = (window.limit(), in_words(window.period()));
            (
                format!(
                    "up to {} per {per}, estimated from this window and a share of the previous one.",
                    units(limit)
                ),
                format!("{limit} per {per}"),
                format!("fewer than {} in any {per}", 2 * limit),
                None,
            )
        }
        Algorithm::RollingWindow(window) => {
            let (limit, per) = (window.limit(), in_words(window.period()));
            let exactness = match window.buckets() {
                None => ", counted exactly".to_owned(),
                Some(buckets) => {
                    format!(
                        "; to bound memory, a unit counts up to {} longer",
                        share(window.period(), 1, buckets)
                    )
                }
            };
            (
                format!("never more than {} in any {per}{exactness}.", units(limit)),
                format!("{limit} per {per}"),
                format!("at most {limit} in any {per}"),
                None,
            )
        }
        Algorithm::Quota(quota) => {
            let (limit, per) = (quota.limit(), in_words(quota.period()));
            (
                format!(
                    "{} in each {per} since the Unix epoch; use it or lose it: one vanishes every {}.",
                    units(limit),
                    share(quota.period(), 1, limit)
                ),
                format!("{limit} per {per}"),
                format!(
                    "at most {limit} + ⌈{limit}·D/{per}⌉ in any window of length D up to {per}"
                ),
                None,
            )
        }
        Algorithm::EvenSlots(slots) => {
            let (limit, per) = (slots.limit(), in_words(slots.period()));
            (
                format!(
                    "one admission of any cost in the first half of each slot of {} since the Unix epoch.",
                    share(slots.period(), 1, limit)
                ),
                format!("{limit} per {per}"),
                format!("at most ⌈{limit}·D/{per} + 1/2⌉ admissions in any window of length D"),
                None,
            )
        }
        Algorithm::MinInterval(gap) => {
            let every = in_words(gap.period());
            (
                format!("admissions at least {every} apart, of any cost."),
                format!("one every {every}"),
                format!("at most ⌈D/{every}⌉ admissions in any window of length D"),
                None,
            )
        }
        Algorithm::ErrorRate(breaker) => {
            let (threshold, per) = (Percent(breaker.threshold()), in_words(breaker.period()));
            let (least, cool_down) = (breaker.min_samples(), in_words(breaker.cool_down()));
            (
                format!(
                    "everything, until {threshold} or more of at least {least} reports within {per} are errors; then nothing for {cool_down}, and after that one probe at a time until one succeeds."
                ),
                format!("{threshold} errors within {per}"),
                format!(
                    "none while it is closed; while it is open, one admission in each {cool_down}"
                ),
                None,
            )
        }
        Algorithm::Concurrency(slots) => {
            let (limit, lease) = (slots.limit(), in_words(slots.lease()));
            (
                format!(
                    "up to {} held at the same time, by reservations only, each for {lease} at most.",
                    units(limit)
                ),
                format!("{limit} at the same time"),
                format!("at most {limit} at any instant"),
                None,
            )
        }
        // An algorithm of a newer core.
        other => {
            let name = other.name();
            (format!("what its {name} admits."), name.to_owned(), "unknown".to_owned(), None)
        }
    };
    Words { admits, short, bound, surprise }
}

fn leaky(limit: &Limit, capacity: u64, drip: u64, every: Duration) -> Words {
    let every = in_words(every);
    let returns = if drip == 1 { "returns" } else { "return" };
    let surprise = (capacity == 1).then(|| Surprise::capacity_of_one(&every));
    Words {
        admits: format!(
            "up to {} at once; {drip} {returns} every {every}.",
            counted(capacity, limit.unit())
        ),
        short: format!("capacity {capacity}, drip {drip} every {every}"),
        bound: format!("at most {capacity} + {drip}·⌈D/{every}⌉ in any window of length D"),
        surprise,
    }
}

fn fixed(limit: &Limit, most: u64, per: Duration, align: &Align) -> Words {
    let (units, per) = (counted(most, limit.unit()), in_words(per));
    let at_an_edge = "the whole limit just before an edge, and again just after it";
    let (admits, short, within, windows) = match align {
        Align::Calendar(calendar) => {
            let unit = calendar.unit().map_or("window", CalendarUnit::name);
            let zone = calendar.time_zone().unwrap_or("its time zone");
            (
                format!("up to {units} in each calendar {unit} of {zone}."),
                unit.to_owned(),
                format!("stretch as long as the shortest {unit}"),
                format!("{unit}s"),
            )
        }
        Align::Epoch => (
            format!("up to {units} in each window of {per}, counted from the Unix epoch."),
            per.to_string(),
            per.to_string(),
            format!("windows of {per}"),
        ),
        Align::First => (
            format!("up to {units} in a window of {per} that starts with the first one admitted."),
            per.to_string(),
            per.to_string(),
            format!("windows of {per}"),
        ),
    };
    let twice = 2 * most;
    Words {
        admits,
        short: format!("{most} per {short}"),
        bound: format!("at most {twice} in any {within}: {at_an_edge}"),
        surprise: Some(Surprise {
            code: "window-edge",
            units: twice,
            words: format!(
                "can admit {twice} in a moment, at the edge between two {windows}; gcra and rolling-window cannot"
            ),
        }),
    }
}

/// What the limit admits, in plain English.
#[must_use]
pub fn sentence(limit: &Limit) -> String {
    let mut sentence = words(limit).admits;
    if let Some(interval) = limit.min_interval() {
        let interval = in_words(interval);
        sentence.push_str(&format!(" Two admissions are at least {interval} apart."));
    }
    if limit.overdraft() {
        sentence.push_str(" Any cost passes if one unit would, and may put the key into debt.");
    }
    if limit.is_shadow() {
        sentence.push_str(" In shadow: it reports and never refuses.");
    }
    sentence
}

/// Its numbers and no more.
#[must_use]
pub fn in_short(limit: &Limit) -> String {
    words(limit).short
}

/// The proven most it admits in any window of length D.
#[must_use]
pub fn bound(limit: &Limit) -> String {
    let mut bound = words(limit).bound;
    if limit.overdraft() {
        bound.push_str(", plus the largest cost less one");
    }
    bound
}

/// What its author may not expect of it.
pub(super) fn surprise(limit: &Limit) -> Option<Surprise> {
    words(limit).surprise
}

pub(super) fn in_words(time: Duration) -> String {
    Micros::from(time).in_words()
}

/// `10 requests`, but `1 request`.
fn counted(count: u64, unit: &str) -> String {
    // A guess: units are the user's words.
    let one = unit.strip_suffix('s').filter(|one| !one.ends_with('s') && !one.ends_with("ie"));
    format!("{count} {}", one.filter(|_| count == 1).unwrap_or(unit))
}

/// `per · times / parts`; marked `≈` and rounded for people if it is not a whole number of microseconds.
fn share(per: Duration, times: u64, parts: u64) -> String {
    let product = per.as_micros() * u128::from(times);
    let parts = u128::from(parts.max(1));
    let rounded = Micros(u64::try_from(product / parts).unwrap_or(u64::MAX));
    match product % parts {
        0 => rounded.in_words(),
        _ if rounded.0 == 0 => "less than 1 µs".to_owned(),
        _ => format!("≈{}", rounded.rounded().in_words()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_say_when_they_are_rounded() {
        assert_eq!(share(Duration::from_secs(1), 1, 10), "100 ms");
        assert_eq!(share(Duration::from_secs(1), 1, 3), "≈333 ms");
        assert_eq!(share(Duration::from_micros(1), 1, 3), "less than 1 µs");
    }

    #[test]
    fn rounded_shares_are_short() {
        for (per, parts, shown) in [
            (1_000, 3, "≈333 µs"),
            (10_000, 7, "≈1.43 ms"),
            (699_999, 7, "≈100 ms"),
            (10_000_000, 7, "≈1.43 s"),
            (6_999_999, 7, "≈1 s"),
            (179_999_999, 3, "≈1 min"),
            (720_000_000, 7, "≈1 min 43 s"),
            (86_400_000_000, 7, "≈3 h 26 min"),
            (30 * 86_400_000_000, 7, "≈4 d 7 h"),
        ] {
            assert_eq!(share(Duration::from_micros(per), 1, parts), shown);
        }
    }
}
