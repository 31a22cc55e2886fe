//! The busiest time of one key: how much it was allowed in any window, and how that came.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// How much of a span is its beginning.
const TWENTIETH: u64 = 20;

/// The most units that one key was allowed in any time span of some length.
pub(super) struct MostWithin {
    window_us: u64,
    recent: HashMap<usize, Recent>,
    most: u128,
    /// How the requests of that span came.
    worst: Worst,
    /// The shortest time between two requests of one key that were allowed.
    shortest_gap_us: Option<u64>,
}

#[derive(Default)]
struct Recent {
    allowed: VecDeque<(u64, u64)>,
    units: u128,
}

/// The requests of the busiest span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Worst {
    /// How many there were.
    pub(super) requests: u64,
    /// How many of them came within the first twentieth of the span.
    pub(super) soon: u64,
    /// When the first and the last of them came.
    pub(super) first_us: u64,
    pub(super) last_us: u64,
}

impl MostWithin {
    pub(super) fn new(window: Duration) -> MostWithin {
        let window_us = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
        MostWithin {
            window_us,
            recent: HashMap::new(),
            most: 0,
            worst: Worst::default(),
            shortest_gap_us: None,
        }
    }

    /// Counts units in the order of time.
    pub(super) fn add(&mut self, key: usize, t_us: u64, units: u64) {
        let recent = self.recent.entry(key).or_default();
        if let Some((last_us, _)) = recent.allowed.back() {
            let gap_us = t_us - last_us;
            self.shortest_gap_us = Some(self.shortest_gap_us.map_or(gap_us, |gap| gap.min(gap_us)));
        }
        recent.allowed.push_back((t_us, units));
        recent.units += u128::from(units);
        // A span includes its start and not its end.
        while let Some(&(first, units)) = recent.allowed.front()
            && t_us - first >= self.window_us
        {
            recent.units -= u128::from(units);
            recent.allowed.pop_front();
        }
        if recent.units > self.most {
            self.most = recent.units;
            let first_us = recent.allowed.front().map_or(t_us, |(first, _)| *first);
            let soon_us = first_us.saturating_add((self.window_us / TWENTIETH).max(1));
            self.worst = Worst {
                requests: recent.allowed.len() as u64,
                soon: recent.allowed.partition_point(|(at_us, _)| *at_us < soon_us) as u64,
                first_us,
                last_us: t_us,
            };
        }
    }

    pub(super) fn units(&self) -> u64 {
        u64::try_from(self.most).unwrap_or(u64::MAX)
    }

    pub(super) fn window_us(&self) -> u64 {
        self.window_us
    }

    /// How long the first twentieth of a span is.
    pub(super) fn soon_us(&self) -> u64 {
        self.window_us / TWENTIETH
    }

    pub(super) fn worst(&self) -> Worst {
        self.worst
    }

    pub(super) fn shortest_gap_us(&self) -> Option<u64> {
        self.shortest_gap_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_second_is_found_and_described() {
        let mut most = MostWithin::new(Duration::from_secs(1));
        for t_us in [0, 5_000_000, 5_000_000, 5_040_000, 5_500_000, 5_900_000, 6_000_000] {
            most.add(0, t_us, 1);
        }
        most.add(1, 5_100_000, 2);
        assert_eq!(most.units(), 5);
        let worst = Worst { requests: 5, soon: 3, first_us: 5_000_000, last_us: 5_900_000 };
        assert_eq!(most.worst(), worst);
        assert_eq!(most.shortest_gap_us(), Some(0));
    }
}
