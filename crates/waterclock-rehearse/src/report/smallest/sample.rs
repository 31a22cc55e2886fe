//! What keys asked for: of all keys, or of the busiest and some of the others.

use std::collections::{HashMap, HashSet};

use crate::report::distinct::hash_of;

/// The most checks that are remembered.
const MOST: usize = 1_250_000;
/// Keys with at least so many of them are kept whatever comes.
const BUSY: u32 = 1_000;

/// One check.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) t_us: u64,
    /// A hash of the key.
    pub(super) key: u64,
    pub(super) cost: u64,
}

/// How much of what was asked a sample holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    #[default]
    Whole,
    /// All of the busiest keys and of some others.
    SomeKeys,
    /// That, up to some instant: even the busiest keys were too much.
    Beginning,
}

/// Checks in the order of time. When there are too many, every other key that is not busy is left out, and
/// again; what is left is whole keys.
#[derive(Default)]
pub struct Sample {
    pub(super) asked: Vec<Asked>,
    busy: HashSet<u64>,
    halvings: u32,
    extent: Extent,
}

impl Sample {
    pub fn add(&mut self, key: &str, t_us: u64, cost: u64) {
        let key = hash_of(key);
        if self.extent == Extent::Beginning || !self.takes(key) {
            return;
        }
        self.asked.push(Asked { t_us, key, cost });
        if self.asked.len() >= MOST {
            self.make_room();
        }
    }

    pub fn extent(&self) -> Extent {
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
