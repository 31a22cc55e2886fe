//! What keys asked for, and how much of it a policy would refuse.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use waterclock::{Policy, Timestamp};
use waterclock_core::store::{Decide as _, Logs, State};

use crate::report::keys::hash_of;

/// The most checks that are kept.
const MOST: usize = 1_250_000;
/// Keys with at least so many checks are kept in any case.
const BUSY: u32 = 1_000;

/// One check.
#[derive(Clone, Copy)]
struct Asked {
    t_us: u64,
    /// A hash of the key.
    key: u64,
    cost: u64,
}

/// How much of the traffic a sample holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::report) enum Extent {
    /// All of it.
    #[default]
    Whole,
    /// All of the busiest keys and of some others.
    SomeKeys,
    /// The same, up to some instant: even the busiest keys were too many checks.
    Beginning,
}

/// Checks in the order of time. When there are too many, every other key that is not busy is dropped, again and again;
/// the others stay whole.
#[derive(Default)]
pub(in crate::report) struct Sample {
    asked: Vec<Asked>,
    busy: HashSet<u64>,
    halvings: u32,
    extent: Extent,
}

impl Sample {
    pub(in crate::report) fn add(&mut self, key: &str, t_us: u64, cost: u64) {
        let key = hash_of(key);
        if self.extent == Extent::Beginning || !self.takes(key) {
            return;
        }
        self.asked.push(Asked { t_us, key, cost });
        if self.asked.len() >= MOST {
            self.make_room();
        }
    }

    pub(in crate::report) fn extent(&self) -> Extent {
        self.extent
    }

    fn make_room(&mut self) {
        let mut counts: HashMap<u64, u32> = HashMap::new();
        self.asked.iter().for_each(|asked| *counts.entry(asked.key).or_default() += 1);
        self.busy.extend(counts.iter().filter(|(_, count)| **count >= BUSY).map(|(key, _)| *key));
        while self.asked.len() > MOST / 2 && self.halvings < u64::BITS {
            self.halvings += 1;
            self.extent = Extent::SomeKeys;
            let mut asked = std::mem::take(&mut self.asked);
            asked.retain(|asked| self.takes(asked.key));
            self.asked = asked;
        }
        if self.asked.len() > MOST / 2 {
            self.extent = Extent::Beginning;
        }
    }

    fn takes(&self, key: u64) -> bool {
        key.leading_zeros() >= self.halvings || self.busy.contains(&key)
    }
}

/// A sample, sorted by key.
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

    /// Whether the policy refuses at most so many. Keys that ask for no more than `fits` in all are skipped.
    pub(super) fn refuses_at_most(&self, policy: &Policy, most: u64, fits: u64) -> bool {
        let mut words = vec![0; policy.words()];
        let mut refused = 0;
        for (places, total) in &self.keys {
            if *total <= fits {
                // Later keys ask for even less.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(sample: &Sample) -> HashMap<u64, u32> {
        let mut counts = HashMap::new();
        sample.asked.iter().for_each(|asked| *counts.entry(asked.key).or_default() += 1);
        counts
    }

    #[test]
    fn too_many_checks_leave_the_busiest_and_whole_keys() {
        let mut sample = Sample::default();
        for t_us in 0..4_000_000_u64 {
            let key = if t_us % 20 == 0 { "busy".to_owned() } else { (t_us % 9_973).to_string() };
            sample.add(&key, t_us, 1);
        }
        assert_eq!(sample.extent(), Extent::SomeKeys);
        assert!(sample.asked.len() < MOST);
        let counts = counts(&sample);
        assert!(counts.values().any(|count| *count == 200_000), "the busy one is whole");
        assert!(counts.len() > 100 && counts.len() < 9_000, "{}", counts.len());
        assert!(counts.values().all(|count| *count > 300), "and so are the others");
    }

    #[test]
    fn one_key_that_is_too_much_is_cut_and_said_to_be() {
        let mut sample = Sample::default();
        (0..2_000_000).for_each(|t_us| sample.add("only", t_us, 5_000_000_000));
        assert_eq!((sample.extent(), sample.asked.len()), (Extent::Beginning, MOST));
    }
}
