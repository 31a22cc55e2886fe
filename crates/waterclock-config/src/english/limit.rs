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
    /// What its author may not expect; completes "limit `x` …".
    surprise: Option<String>,
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
            let (limit, per, capacity) = (gcra.limit(), micros(gcra.period()), gcra.capacity());
            let one = share(per, 1, limit);
            let surprise = (capacity == 1).then(|| {
                format!(
                    "has a capacity of 1: a request less than {one} after another one is refused"
                )
            });
            let rate = format!("{limit} per {per}");
            (
                format!(
                    "{} per {per} on average and up to {capacity} at once; one returns every {one}, a spent capacity within {}.",
                    units(limit),
                    share(per, capacity, limit)
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
            let (limit, per) = (window.limit(), micros(window.period()));
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
            let (limit, per) = (window.limit(), micros(window.period()));
            let exactness = match window.buckets() {
                None => ", counted exactly".to_owned(),
                Some(buckets) => {
                    format!(
                        "; to bound memory, a unit counts up to {} longer",
                        share(per, 1, buckets)
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
            let (limit, per) = (quota.limit(), micros(quota.period()));
            (
                format!(
                    "{} in each {per} since the Unix epoch; use it or lose it: one vanishes every {}.",
                    units(limit),
                    share(per, 1, limit)
                ),
                format!("{limit} per {per}"),
                format!(
                    "at most {limit} + ⌈{limit}·D/{per}⌉ in any window of length D up to {per}"
                ),
                None,
            )
        }
        Algorithm::EvenSlots(slots) => {
            let (limit, per) = (slots.limit(), micros(slots.period()));
            (
                format!(
                    "one admission of any cost in the first half of each slot of {} since the Unix epoch.",
                    share(per, 1, limit)
                ),
                format!("{limit} per {per}"),
                format!("at most ⌈{limit}·D/{per} + 1/2⌉ admissions in any window of length D"),
                None,
            )
        }
        Algorithm::MinInterval(gap) => {
            let every = micros(gap.period());
            (
                format!("admissions at least {every} apart, of any cost."),
                format!("one every {every}"),
                format!("at most ⌈D/{every}⌉ admissions in any window of length D"),
                None,
            )
        }
        Algorithm::ErrorRate(breaker) => {
            let (threshold, per) = (Percent(breaker.threshold()), micros(breaker.period()));
            let (least, cool_down) = (breaker.min_samples(), micros(breaker.cool_down()));
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
            let (limit, lease) = (slots.limit(), micros(slots.lease()));
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
    let every = micros(every);
    let returns = if drip == 1 { "returns" } else { "return" };
    let surprise = (capacity == 1).then(|| {
        format!("has a capacity of 1: a request less than {every} after another one is refused")
    });
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
    let (units, per) = (counted(most, limit.unit()), micros(per));
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
        surprise: Some(format!(
            "can admit {twice} in a moment, at the edge between two {windows}; gcra and rolling-window cannot"
        )),
    }
}

/// What the limit admits, in plain English.
#[must_use]
pub fn sentence(limit: &Limit) -> String {
    let mut sentence = words(limit).admits;
    if let Some(interval) = limit.min_interval() {
        let interval = micros(interval);
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

/// What its author may not expect of it; completes "limit `x` …".
pub(super) fn surprise(limit: &Limit) -> Option<String> {
    words(limit).surprise
}

fn micros(time: Duration) -> Micros {
    Micros::from(time)
}

/// `10 requests`, but `1 request`.
fn counted(count: u64, unit: &str) -> String {
    // A guess: units are the user's words.
    let one = unit.strip_suffix('s').filter(|one| !one.ends_with('s') && !one.ends_with("ie"));
    format!("{count} {}", one.filter(|_| count == 1).unwrap_or(unit))
}

/// `per · times / parts`; marked `≈` and rounded for people if it is not a whole number of microseconds.
fn share(per: Micros, times: u64, parts: u64) -> String {
    let product = u128::from(per.0) * u128::from(times);
    let parts = u128::from(parts.max(1));
    let rounded = Micros(u64::try_from(product / parts).unwrap_or(u64::MAX));
    match product % parts {
        0 => rounded.to_string(),
        _ if rounded.0 == 0 => "less than 1us".to_owned(),
        _ => format!("≈{}", rounded_for_people(rounded)),
    }
}

/// Three digits, or the two largest units: `333ms`, `1.43s`, `1m43s`, `4d7h`.
fn rounded_for_people(time: Micros) -> String {
    const SECOND: u64 = 1_000_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let step = match time.0 {
        0..1_000 => 1,
        1_000..MINUTE => 10_u64.pow(time.0.ilog10() - 2),
        MINUTE..HOUR => SECOND,
        HOUR..DAY => MINUTE,
        _ => HOUR,
    };
    let rounded = time.0.saturating_add(step / 2) / step * step;
    let decimal = |unit: u64, digits: usize, name: &str| {
        let number = format!("{}.{:0digits$}", rounded / unit, rounded % unit);
        format!("{}{name}", number.trim_end_matches('0').trim_end_matches('.'))
    };
    match rounded {
        1_000..SECOND => decimal(1_000, 3, "ms"),
        SECOND..MINUTE => decimal(SECOND, 6, "s"),
        _ => Micros(rounded).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_say_when_they_are_rounded() {
        assert_eq!(share(Micros(1_000_000), 1, 10), "100ms");
        assert_eq!(share(Micros(1_000_000), 1, 3), "≈333ms");
        assert_eq!(share(Micros(1), 1, 3), "less than 1us");
    }

    #[test]
    fn rounded_shares_are_short() {
        for (per, parts, shown) in [
            (1_000, 3, "≈333us"),
            (10_000, 7, "≈1.43ms"),
            (699_999, 7, "≈100ms"),
            (10_000_000, 7, "≈1.43s"),
            (6_999_999, 7, "≈1s"),
            (179_999_999, 3, "≈1m"),
            (720_000_000, 7, "≈1m43s"),
            (86_400_000_000, 7, "≈3h26m"),
            (30 * 86_400_000_000, 7, "≈4d7h"),
        ] {
            assert_eq!(share(Micros(per), 1, parts), shown);
        }
    }
}
