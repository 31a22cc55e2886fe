//! What keys asked for: of all keys, or of as many as fit.

/// The most checks that are remembered.
const MOST: usize = 2_000_000;

/// One check.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) t_us: u64,
    pub(super) key: u32,
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
    /// A key without a place is left out.
    pub(crate) fn add(&mut self, key: Option<u32>, t_us: u64, cost: u64) {
        let (Some(key), Ok(cost)) = (key, u32::try_from(cost)) else {
            self.is_short = true;
            return;
        };
        if !self.takes(key) {
            return;
        }
        self.asked.push(Asked { t_us, key, cost });
        while self.asked.len() >= MOST && self.halvings < 31 {
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

    fn takes(&self, key: u32) -> bool {
        // Neighbours in the order of arrival are not neighbours here.
        key.wrapping_mul(0x9e37_79b1).leading_zeros() >= self.halvings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_checks_leave_whole_keys() {
        let mut sample = Sample::default();
        for t_us in 0..5_000_000_u64 {
            sample.add(u32::try_from(t_us % 1_000).ok(), t_us, 1);
        }
        assert!(!sample.is_whole() && sample.asked.len() < MOST);
        let mut counts = [0; 1_000];
        sample.asked.iter().for_each(|asked| counts[usize::try_from(asked.key).unwrap()] += 1);
        assert!(counts.iter().all(|count| [0, 5_000].contains(count)));
        assert!(counts.iter().filter(|count| **count > 0).count() > 100);
    }
}
