//! One limit in plain English: what it admits, and the most it can admit in any window.

use crate::{AlgorithmSpec, LimitSpec, Micros, Window, percent_of};

/// What the limit admits.
pub fn sentence(limit: &LimitSpec) -> String {
    let units = |count: u64| counted(count, &limit.unit);
    let mut sentence = match &limit.algorithm {
        AlgorithmSpec::Gcra { limit, per, capacity, .. } => format!(
            "{} per {per} on average and up to {capacity} at once; one returns every {}, a spent capacity within {}.",
            units(*limit),
            share(*per, 1, *limit),
            share(*per, *capacity, *limit)
        ),
        AlgorithmSpec::LeakyBucket { capacity, drip, every, .. } => {
            format!(
                "up to {} at once; {drip} {} every {every}.",
                units(*capacity),
                if *drip == 1 { "returns" } else { "return" }
            )
        }
        AlgorithmSpec::FixedWindow { limit, window: Window::First(per) } => {
            format!(
                "up to {} in a window of {per} that starts with the first one admitted.",
                units(*limit)
            )
        }
        AlgorithmSpec::FixedWindow { limit, window: Window::Epoch(per) } => {
            format!("up to {} in each window of {per}, counted from the Unix epoch.", units(*limit))
        }
        AlgorithmSpec::FixedWindow { limit, window: Window::Calendar { per, timezone } } => {
            format!("up to {} in each calendar {per} of {timezone}.", units(*limit))
        }
        AlgorithmSpec::SlidingWindow { limit, per } => {
            format!(
                "up to {} per {per}, judged by this window and a share of the one before.",
                units(*limit)
            )
        }
        AlgorithmSpec::RollingWindow { limit, per, buckets: None } => {
            format!("never more than {} in any {per}, counted exactly.", units(*limit))
        }
        AlgorithmSpec::RollingWindow { limit, per, buckets: Some(buckets) } => format!(
            "never more than {} in any {per}; each counts up to {} longer, to bound memory.",
            units(*limit),
            share(*per, 1, *buckets)
        ),
        AlgorithmSpec::Quota { limit, per } => {
            format!(
                "{} in each {per} since the Unix epoch; use it or lose it: one vanishes every {}.",
                units(*limit),
                share(*per, 1, *limit)
            )
        }
        AlgorithmSpec::EvenSlots { limit, per } => {
            format!(
                "one admission of any cost in the first half of each slot of {} since the Unix epoch.",
                share(*per, 1, *limit)
            )
        }
        AlgorithmSpec::MinInterval { every } => {
            format!("two admissions, of any cost, at least {every} apart.")
        }
        AlgorithmSpec::ErrorRate { threshold, per, min_samples, cool_down } => format!(
            "everything, until {} or more of at least {min_samples} reports within {per} are errors; then nothing for {cool_down}, and after that one probe at a time until one ends well.",
            percent_of(*threshold)
        ),
        AlgorithmSpec::Concurrency { limit, lease } => format!(
            "up to {} held at the same time, by reservations only, each for {lease} at most.",
            units(*limit)
        ),
    };
    if let Some(interval) = limit.min_interval {
        sentence.push_str(&format!(" Two admissions are at least {interval} apart."));
    }
    if is_overdraft(&limit.algorithm) {
        sentence.push_str(" Any cost passes whenever one unit would, and puts the key into debt.");
    }
    if limit.shadow {
        sentence.push_str(" In shadow: it reports and never refuses.");
    }
    sentence
}

/// Its numbers and no more.
pub fn in_short(limit: &LimitSpec) -> String {
    let rate = |limit: u64, per: Micros| format!("{limit} per {per}");
    match &limit.algorithm {
        AlgorithmSpec::Gcra { limit, per, capacity, .. } if limit == capacity => rate(*limit, *per),
        AlgorithmSpec::Gcra { limit, per, capacity, .. } => {
            format!("{}, capacity {capacity}", rate(*limit, *per))
        }
        AlgorithmSpec::LeakyBucket { capacity, drip, every, .. } => {
            format!("capacity {capacity}, drip {drip} every {every}")
        }
        AlgorithmSpec::FixedWindow { limit, window: Window::Calendar { per, .. } } => {
            format!("{limit} per {per}")
        }
        AlgorithmSpec::FixedWindow { limit, window: Window::First(per) | Window::Epoch(per) }
        | AlgorithmSpec::SlidingWindow { limit, per }
        | AlgorithmSpec::RollingWindow { limit, per, .. }
        | AlgorithmSpec::Quota { limit, per }
        | AlgorithmSpec::EvenSlots { limit, per } => rate(*limit, *per),
        AlgorithmSpec::MinInterval { every } => format!("one every {every}"),
        AlgorithmSpec::ErrorRate { threshold, per, .. } => {
            format!("{} errors within {per}", percent_of(*threshold))
        }
        AlgorithmSpec::Concurrency { limit, .. } => format!("{limit} at the same time"),
    }
}

/// The proven most it admits in any window of length D.
pub fn bound(limit: &LimitSpec) -> String {
    let mut bound = match &limit.algorithm {
        AlgorithmSpec::Gcra { limit, per, capacity, .. } => {
            format!("at most {capacity} + {limit}·D/{per} in any window of length D")
        }
        AlgorithmSpec::LeakyBucket { capacity, drip, every, .. } => {
            format!("at most {capacity} + {drip}·⌈D/{every}⌉ in any window of length D")
        }
        AlgorithmSpec::FixedWindow { limit, window: Window::Calendar { per, .. } } => {
            format!(
                "at most {} in any stretch as long as the shortest {per}: a limit just before an edge and one just after",
                2 * limit
            )
        }
        AlgorithmSpec::FixedWindow { limit, window: Window::First(per) | Window::Epoch(per) } => {
            format!(
                "at most {} in any {per}: a limit just before an edge and one just after",
                2 * limit
            )
        }
        AlgorithmSpec::SlidingWindow { limit, per } => {
            format!("fewer than {} in any {per}", 2 * limit)
        }
        AlgorithmSpec::RollingWindow { limit, per, .. } => format!("at most {limit} in any {per}"),
        AlgorithmSpec::Quota { limit, per } => {
            format!("at most {limit} + ⌈{limit}·D/{per}⌉ in any window of length D up to {per}")
        }
        AlgorithmSpec::EvenSlots { limit, per } => {
            format!("at most ⌈{limit}·D/{per} + 1/2⌉ admissions in any window of length D")
        }
        AlgorithmSpec::MinInterval { every } => {
            format!("at most ⌈D/{every}⌉ admissions in any window of length D")
        }
        AlgorithmSpec::ErrorRate { cool_down, .. } => {
            format!("none while it is closed; while it is open, one admission in each {cool_down}")
        }
        AlgorithmSpec::Concurrency { limit, .. } => format!("at most {limit} at any instant"),
    };
    if is_overdraft(&limit.algorithm) {
        bound.push_str(", plus the largest cost less one");
    }
    bound
}

/// The same as a number, for a window of this length and costs of at most so many units each. `None` where
/// there is no bound on a rate.
pub fn most_within(limit: &LimitSpec, window: Micros, cost: u64) -> Option<u64> {
    let times = |per: Micros| u128::from(window.0.div_ceil(per.0.max(1)));
    let wide = |units: u64| u128::from(units);
    let most = match &limit.algorithm {
        AlgorithmSpec::Gcra { limit, per, capacity, .. } => {
            wide(*capacity) + wide(*limit) * wide(window.0) / wide(per.0)
        }
        AlgorithmSpec::LeakyBucket { capacity, drip, every, .. } => {
            wide(*capacity) + wide(*drip) * times(*every)
        }
        AlgorithmSpec::FixedWindow { limit, window: Window::First(per) | Window::Epoch(per) } => {
            wide(*limit) * (times(*per) + 1)
        }
        AlgorithmSpec::FixedWindow { limit, window: Window::Calendar { per, .. } } => {
            wide(*limit) * (times(shortest(per)) + 1)
        }
        AlgorithmSpec::SlidingWindow { limit, per } => (2 * wide(*limit) - 1) * times(*per),
        AlgorithmSpec::RollingWindow { limit, per, .. } => wide(*limit) * times(*per),
        AlgorithmSpec::Quota { limit, per } if window <= *per => {
            wide(*limit) + (wide(*limit) * wide(window.0)).div_ceil(wide(per.0))
        }
        AlgorithmSpec::Quota { limit, per } => 2 * wide(*limit) * times(*per),
        // Admissions of any cost, from here on.
        AlgorithmSpec::EvenSlots { limit, per } => {
            let half_slots = 2 * wide(*limit) * wide(window.0) + wide(per.0);
            half_slots.div_ceil(2 * wide(per.0)) * wide(cost)
        }
        AlgorithmSpec::MinInterval { every } => times(*every) * wide(cost),
        AlgorithmSpec::ErrorRate { .. } | AlgorithmSpec::Concurrency { .. } => return None,
    };
    let debt = if is_overdraft(&limit.algorithm) { cost.saturating_sub(1) } else { 0 };
    Some(u64::try_from(most + wide(debt)).unwrap_or(u64::MAX))
}

/// Of days, weeks, months or years where clocks change.
fn shortest(per: &str) -> Micros {
    let hours = match per {
        "day" => 23,
        "week" => 7 * 24 - 1,
        "month" => 28 * 24 - 1,
        _ => 365 * 24 - 1,
    };
    Micros(hours * 3_600_000_000)
}

fn is_overdraft(algorithm: &AlgorithmSpec) -> bool {
    matches!(
        algorithm,
        AlgorithmSpec::Gcra { overdraft: true, .. }
            | AlgorithmSpec::LeakyBucket { overdraft: true, .. }
    )
}

/// `10 requests`, but `1 request`.
fn counted(count: u64, unit: &str) -> String {
    // A guess: units are the user's words.
    let one = unit.strip_suffix('s').filter(|one| !one.ends_with('s') && !one.ends_with("ie"));
    format!("{count} {}", one.filter(|_| count == 1).unwrap_or(unit))
}

/// `per · times / parts`, for people: rounded to the microsecond, and then said to be.
pub(super) fn share(per: Micros, times: u64, parts: u64) -> String {
    let product = u128::from(per.0) * u128::from(times);
    let parts = u128::from(parts.max(1));
    let rounded = Micros(u64::try_from(product / parts).unwrap_or(u64::MAX));
    match product % parts {
        0 => rounded.to_string(),
        _ if rounded.0 == 0 => "less than 1us".to_owned(),
        _ => format!("≈{rounded}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_say_when_they_are_rounded() {
        assert_eq!(share(Micros(1_000_000), 1, 10), "100ms");
        assert_eq!(share(Micros(1_000_000), 1, 3), "≈333ms333us");
        assert_eq!(share(Micros(1), 1, 3), "less than 1us");
    }
}
