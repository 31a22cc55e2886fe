//! Some of the refusals, each as likely to be kept as any other: enough to draw them.

use fastrand::Rng;

use crate::picture::Refusal;

const MOST: usize = 4_000;

pub struct Refusals {
    kept: Vec<Refusal>,
    seen: u64,
    random: Rng,
}

impl Default for Refusals {
    fn default() -> Refusals {
        // The same traffic gives the same picture.
        Refusals { kept: Vec::new(), seen: 0, random: Rng::with_seed(0) }
    }
}

impl Refusals {
    /// The refusal is only made where it is kept.
    pub fn add(&mut self, refusal: impl FnOnce() -> Refusal) {
        self.seen += 1;
        if self.kept.len() < MOST {
            self.kept.push(refusal());
            return;
        }
        let place = usize::try_from(self.random.u64(..self.seen)).unwrap_or(usize::MAX);
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = refusal();
        }
    }

    /// How many there were.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Those that are kept, in the order of time.
    pub fn kept(&self) -> Vec<Refusal> {
        let mut kept = self.kept.clone();
        kept.sort_by_key(|refusal| refusal.t_us);
        kept
    }
}
