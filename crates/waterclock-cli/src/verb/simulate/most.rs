//! The most that one key was admitted in any stretch of some length.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Watches what each key is admitted, in the order of time.
pub(super) struct Most {
    window_us: u64,
    recent: HashMap<usize, Recent>,
    most: u128,
}

#[derive(Default)]
struct Recent {
    admitted: VecDeque<(u64, u64)>,
    units: u128,
}

impl Most {
    pub(super) fn within(window: Duration) -> Most {
        let window_us = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
        Most { window_us, recent: HashMap::new(), most: 0 }
    }

    pub(super) fn add(&mut self, key: usize, t_us: u64, units: u64) {
        let recent = self.recent.entry(key).or_default();
        recent.admitted.push_back((t_us, units));
        recent.units += u128::from(units);
        // A stretch holds its start and not its end.
        while let Some(&(first, units)) = recent.admitted.front()
            && t_us - first >= self.window_us
        {
            recent.units -= u128::from(units);
            recent.admitted.pop_front();
        }
        self.most = self.most.max(recent.units);
    }

    pub(super) fn units(&self) -> u64 {
        u64::try_from(self.most).unwrap_or(u64::MAX)
    }

    pub(super) fn window_us(&self) -> u64 {
        self.window_us
    }
}
