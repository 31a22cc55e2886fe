//! The same traffic under other numbers, key by key.

use std::ops::Range;

use waterclock::{Policy, Timestamp};
use waterclock_core::store::{Decide as _, Logs, State};

use super::sample::{Asked, Sample};

/// What was asked for, each key's checks together.
pub(super) struct Demand {
    asked: Vec<Asked>,
    keys: Vec<(Range<u32>, u64)>,
}

impl Demand {
    pub(super) fn new(sample: Sample) -> Demand {
        let mut asked = sample.asked;
        // Stable: the checks of a key stay in their order.
        asked.sort_by_key(|asked| asked.key);
        let mut keys: Vec<(Range<u32>, u64)> = Vec::new();
        let mut end = 0;
        for same in asked.chunk_by(|one, other| one.key == other.key) {
            let start = end;
            end += u32::try_from(same.len()).unwrap_or(u32::MAX);
            keys.push((
                start..end,
                same.iter().fold(0, |sum: u64, asked| sum.saturating_add(asked.cost)),
            ));
        }
        // The busiest first: they are refused first.
        keys.sort_by_key(|(_, total)| std::cmp::Reverse(*total));
        Demand { asked, keys }
    }

    pub(super) fn checks(&self) -> u64 {
        self.asked.len() as u64
    }

    pub(super) fn span_us(&self) -> u64 {
        let times = || self.asked.iter().map(|asked| asked.t_us);
        times().max().unwrap_or(0) - times().min().unwrap_or(0)
    }

    /// Whether the policy refuses at most so many. Keys that ask for no more than `fits` in all are not asked.
    pub(super) fn refuses_at_most(&self, policy: &Policy, most: u64, fits: u64) -> bool {
        let mut words = vec![0; policy.words()];
        let mut refused = 0;
        for (places, total) in &self.keys {
            if *total <= fits {
                // Nor does anybody after this one.
                break;
            }
            let (mut logs, mut word) = (Logs::new(), 0);
            words.fill(0);
            for asked in &self.asked[places.start as usize..places.end as usize] {
                let (now, cost) = (Timestamp::from_micros(asked.t_us), asked.cost);
                let decision = match policy.one_word() {
                    Some(one) => one.check(&mut word, now, cost),
                    None => policy.check(&mut State::new(&mut words, &mut logs), now, cost),
                };
                refused += u64::from(policy.refuses(&decision));
                if refused > most {
                    return false;
                }
            }
        }
        true
    }
}
