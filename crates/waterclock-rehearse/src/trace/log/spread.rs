//! Lines that say only the second, spread evenly over it.

use std::collections::VecDeque;

use super::entry::Entry;

const SECOND_US: u64 = 1_000_000;
/// How many lines, and bytes of their keys, are held until their second is over.
const MOST: usize = 100_000;
const MOST_BYTES: usize = 16 << 20;

/// The lines of the last second.
#[derive(Default)]
pub(super) struct Spread {
    held: Vec<Entry>,
    ready: VecDeque<Entry>,
    bytes: usize,
    second: u64,
    /// How much of the second is given away already.
    taken_us: u64,
    /// Whether a line knows better than its second when it was.
    is_precise: bool,
}

impl Spread {
    /// Takes lines in the order of time.
    pub(super) fn push(&mut self, entry: Entry) {
        let second = entry.t_us / SECOND_US;
        if second != self.second {
            self.release(SECOND_US);
            (self.second, self.taken_us, self.is_precise) = (second, 0, false);
        }
        self.is_precise |= !entry.t_us.is_multiple_of(SECOND_US);
        self.bytes += entry.size();
        self.held.push(entry);
        if self.held.len() >= MOST || self.bytes > MOST_BYTES {
            // Nobody knows how many more there are: they get the other half of what is left.
            self.release(self.taken_us + (SECOND_US - self.taken_us) / 2);
        }
    }

    pub(super) fn pop(&mut self, is_end: bool) -> Option<Entry> {
        if is_end {
            self.release(SECOND_US);
        }
        self.ready.pop_front()
    }

    /// Lets go of what is held, between what is taken and here.
    fn release(&mut self, until_us: u64) {
        let (from_us, count) = (self.taken_us, self.held.len() as u64);
        for (place, mut entry) in (0..).zip(self.held.drain(..)) {
            if self.is_precise {
                // Others of its second may have been let go before it came.
                entry.t_us = entry.t_us.max(self.second * SECOND_US + from_us);
            } else {
                entry.t_us += from_us + (until_us - from_us) * place / count;
            }
            self.ready.push_back(entry);
        }
        self.bytes = 0;
        if !self.is_precise {
            self.taken_us = until_us;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(times: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut spread = Spread::default();
        let mut out = Vec::new();
        for t_us in times {
            spread.push(Entry { t_us, ..Entry::default() });
            while let Some(entry) = spread.pop(false) {
                out.push(entry.t_us);
            }
        }
        while let Some(entry) = spread.pop(true) {
            out.push(entry.t_us);
        }
        out
    }

    #[test]
    fn evenly() {
        let second = SECOND_US;
        let out = through([0, 0, 0, 0, second, 3 * second, 3 * second]);
        assert_eq!(out, [0, 250_000, 500_000, 750_000, second, 3 * second, 3_500_000]);
    }

    #[test]
    fn lines_that_know_better_stay() {
        let out = through([0, 0, 700_000, 1_000_000, 1_000_000]);
        assert_eq!(out, [0, 0, 700_000, 1_000_000, 1_500_000]);
    }

    #[test]
    fn however_many_there_are() {
        let out = through((0..MOST as u64 * 5 / 2).map(|_| 9 * SECOND_US).chain([10 * SECOND_US]));
        assert_eq!(out.len(), MOST * 5 / 2 + 1);
        assert!(out.is_sorted());
        assert!(out[..MOST * 5 / 2].iter().all(|t_us| t_us / SECOND_US == 9));
        assert!(out[MOST * 2] > 9_740_000, "{}", out[MOST * 2]);
    }
}
