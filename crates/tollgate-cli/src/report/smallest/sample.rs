//! What keys asked for: of all keys, or of as many as fit.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The most checks that are remembered.
const MOST: usize = 1_250_000;

/// One check.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) t_us: u64,
    /// A hash of the key.
    pub(super) key: u64,
    pub(super) cost: u32,
}

/// Checks in the order of time. When there are too many, every other key is left out, and again; what is
/// left is whole keys.
#[derive(Default)]
pub(crate) struct Sample {
    pub(super) asked: Vec<Asked>,
    halvings: u32,
    is_short: bool,
}

impl Sample {
    pub(crate) fn add(&mut self, key: &str, t_us: u64, cost: u64) {
        let Ok(cost) = u32::try_from(cost) else {
            // Nobody's limit is found in units of billions.
            self.is_short = true;
            return;
        };
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let key = hasher.finish();
        if !self.takes(key) {
            return;
        }
        self.asked.push(Asked { t_us, key, cost });
        while self.asked.len() >= MOST && self.halvings < u64::BITS {
            self.halvings += 1;
            let mut asked = std::mem::take(&mut self.asked);
            asked.retain(|asked| self.takes(asked.key));
            self.asked = asked;
        }
    }

    /// Whether every check of every key is in it.
    pub(crate) fn is_whole(&self) -> bool {
        self.halvings == 0 && !self.is_short
    }

    fn takes(&self, key: u64) -> bool {
        key.leading_zeros() >= self.halvings
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn too_many_checks_leave_whole_keys() {
        let mut sample = Sample::default();
        for t_us in 0..5_000_000_u64 {
            sample.add(&(t_us % 1_000).to_string(), t_us, 1);
        }
        assert!(!sample.is_whole() && sample.asked.len() < MOST);
        let mut counts: HashMap<u64, u32> = HashMap::new();
        sample.asked.iter().for_each(|asked| *counts.entry(asked.key).or_default() += 1);
        assert!(counts.values().all(|count| *count == 5_000));
        assert!(counts.len() > 100, "{}", counts.len());
    }
}
