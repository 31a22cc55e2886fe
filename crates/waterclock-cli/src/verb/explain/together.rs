//! What several limits do together: which of them binds in which windows, and the most that all of them admit.

use std::time::Duration;

use serde::Serialize;
use waterclock::Limit;
use waterclock_config::Micros;
use waterclock_rehearse::terminal::grouped;

/// The limits of one unit that refuse.
#[derive(Serialize)]
pub(super) struct Together {
    unit: String,
    /// The strictest limit by the length of a window, the shortest first.
    binds: Vec<Binding>,
    /// The most units in windows as long as the periods of the limits.
    most: Vec<Most>,
}

/// A limit that is the strictest in windows of these lengths.
#[derive(Serialize)]
struct Binding {
    limit: String,
    from_us: u64,
    /// `null`: in all longer ones.
    until_us: Option<u64>,
}

/// The most units in any window of this length by checks of one unit each, and the limit that sees to it.
#[derive(Serialize)]
pub(super) struct Most {
    window_us: u64,
    units: u64,
    limit: String,
}

impl Most {
    /// In a window as long as the limit's period.
    pub(super) fn of(limit: &Limit) -> Option<Most> {
        let window_us = period(limit)?;
        let units = strictness(limit, window_us)?;
        Some(Most { window_us, units, limit: limit.name().to_owned() })
    }
}

fn period(limit: &Limit) -> Option<u64> {
    Some(Micros::from(limit.period().or(limit.every())?).0)
}

impl Together {
    /// One for each unit that at least two limits count.
    pub(super) fn of(limits: &[Limit]) -> Vec<Together> {
        let live: Vec<&Limit> = limits.iter().filter(|limit| !limit.is_shadow()).collect();
        let mut units: Vec<&str> = live.iter().map(|limit| limit.unit()).collect();
        units.sort_unstable();
        units.dedup();
        let of_unit = |unit: &str| {
            let live = live.iter().copied().filter(|limit| limit.unit() == unit);
            Together::of_unit(unit, &live.collect::<Vec<_>>())
        };
        units.into_iter().filter_map(of_unit).collect()
    }

    fn of_unit(unit: &str, limits: &[&Limit]) -> Option<Together> {
        let is_bounded = |limit: &&&Limit| strictness(limit, 1).is_some();
        if limits.iter().filter(is_bounded).count() < 2 {
            return None;
        }
        let mut periods: Vec<u64> = limits.iter().filter_map(|limit| period(limit)).collect();
        periods.sort_unstable();
        periods.dedup();
        let most = periods.iter().filter_map(|window| {
            let (at, units) = strictest(limits, *window)?;
            Some(Most { window_us: *window, units, limit: limits[at].name().to_owned() })
        });
        let binds = binds(limits, &periods);
        Some(Together { unit: unit.to_owned(), binds, most: most.collect() })
    }

    /// For people.
    pub(super) fn lines(&self) -> Vec<String> {
        let time = |us: u64| Micros(us).for_people();
        let binding = |binding: &Binding| match (binding.from_us, binding.until_us) {
            (0, None) => format!("{} binds in windows of any length", binding.limit),
            (0, Some(until)) => format!("{} binds in windows up to {}", binding.limit, time(until)),
            (from, Some(until)) => {
                format!("{} from {} to {}", binding.limit, time(from), time(until))
            }
            (_, None) => format!("{} in longer ones", binding.limit),
        };
        let binds: Vec<String> = self.binds.iter().map(binding).collect();
        let most = |most: &Most| {
            // Not rounded: a longer window admits more.
            let window = Micros(most.window_us).in_words();
            format!("{} in any {window} ({})", grouped(most.units), most.limit)
        };
        let most: Vec<String> = self.most.iter().map(most).collect();
        vec![
            format!("together, for {}, one at a time:", self.unit),
            format!("  {}", binds.join(", ")),
            format!("  at most {}", most.join(", ")),
        ]
    }
}

/// The most that a limit admits in a window, one unit at a time.
fn strictness(limit: &Limit, window_us: u64) -> Option<u64> {
    limit.most_within(Duration::from_micros(window_us), 1)
}

/// The limit that admits least in a window, the first of several, and how much.
fn strictest(limits: &[&Limit], window_us: u64) -> Option<(usize, u64)> {
    let bound = |(at, limit): (usize, &&Limit)| Some((at, strictness(limit, window_us)?));
    limits.iter().enumerate().filter_map(bound).min_by_key(|(_, units)| *units)
}

/// A hundred years, as long as the longest period.
const LONGEST_US: u64 = 100 * 365 * 86_400 * 1_000_000;

/// Which limit is the strictest: tried at windows of every magnitude, then to the microsecond where it changes.
fn binds(limits: &[&Limit], periods: &[u64]) -> Vec<Binding> {
    let who = |window: u64| strictest(limits, window).map_or(0, |(at, _)| at);
    let mut binds: Vec<Binding> = Vec::new();
    let mut begin = |at: usize, from_us: u64| {
        if let Some(last) = binds.last_mut() {
            last.until_us = Some(from_us);
        }
        binds.push(Binding { limit: limits[at].name().to_owned(), from_us, until_us: None });
    };
    let (mut window, mut now) = (1, who(1));
    begin(now, 0);
    // The bound of a window jumps just after a period, so that periods are looked at themselves.
    while window < LONGEST_US {
        let step = window.saturating_add((window / 4).max(1));
        let next = periods.iter().copied().find(|period| *period > window).unwrap_or(step);
        let next = next.min(step);
        let then = who(next);
        if then != now {
            let (mut low, mut high) = (window, next);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if who(middle) == now { low = middle } else { high = middle }
            }
            begin(then, low);
            now = then;
        }
        window = next;
    }
    binds
}
