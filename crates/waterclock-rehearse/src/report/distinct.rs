//! How many different keys there were, in sixteen kilobytes however many that is.

use std::hash::{DefaultHasher, Hash, Hasher};

const BITS: u32 = 14;
const REGISTERS: usize = 1 << BITS;

/// An estimate that is off by about one in a hundred (HyperLogLog). A key that comes again changes nothing.
pub struct Distinct {
    longest: Vec<u8>,
}

impl Default for Distinct {
    fn default() -> Distinct {
        Distinct { longest: vec![0; REGISTERS] }
    }
}

impl Distinct {
    pub fn add(&mut self, key: &str) {
        let hash = hash_of(key);
        let place = usize::try_from(hash >> (u64::BITS - BITS)).unwrap_or(0);
        // One more than the zeros that follow: at most 51, so it fits.
        let zeros =
            u8::try_from((hash << BITS | 1 << (BITS - 1)).leading_zeros() + 1).unwrap_or(u8::MAX);
        self.longest[place] = self.longest[place].max(zeros);
    }

    /// About how many.
    pub fn estimate(&self) -> usize {
        let registers = REGISTERS as f64;
        let sum: f64 = self.longest.iter().map(|zeros| (-f64::from(*zeros)).exp2()).sum();
        let raw = 0.7213 / (1.0 + 1.079 / registers) * registers * registers / sum;
        let empty = self.longest.iter().filter(|zeros| **zeros == 0).count();
        // Few keys leave many registers empty, which says more than the others do.
        let few = registers * (registers / empty.max(1) as f64).ln();
        let estimate = if raw <= 2.5 * registers && empty > 0 { few } else { raw };
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate of a count"
        )]
        let rounded = estimate.round() as usize;
        rounded
    }
}

/// The same in every run, so that reports are.
pub(super) fn hash_of(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_close_and_repetition_does_not_matter() {
        for count in [1, 100, 10_000, 300_000, 1_000_000] {
            let mut distinct = Distinct::default();
            for number in (0..count).chain(0..count / 2) {
                distinct.add(&format!("key-{number}"));
            }
            let estimate = distinct.estimate();
            assert!(estimate.abs_diff(count) * 33 <= count.max(33), "{count}: {estimate}");
        }
    }
}
