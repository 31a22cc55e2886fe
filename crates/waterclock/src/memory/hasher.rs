//! How keys become fingerprints. The seed is chosen late, so that it can be one that was saved.

use std::sync::OnceLock;

use super::snapshot::RestoreError;

/// The numbers that a hash depends on beside its key.
pub(super) type Seed = [u64; 4];

/// The hash of this key shows whether two builds hash alike.
const KNOWN_KEY: &[u8] = b"a key that everybody knows";

#[derive(Debug, Default)]
pub(super) struct Hasher(OnceLock<Seeded>);

#[derive(Debug)]
struct Seeded {
    state: ahash::RandomState,
    seed: Seed,
}

impl Hasher {
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.seeded().state.hash_one(key)
    }

    #[inline]
    fn seeded(&self) -> &Seeded {
        self.0.get_or_init(|| Seeded::new(random()))
    }

    pub(super) fn seed(&self) -> Seed {
        self.seeded().seed
    }

    /// The hash of a known key.
    pub(super) fn probe(&self) -> u64 {
        self.hash(KNOWN_KEY)
    }

    /// Takes a seed that was saved, if no other was used yet and it leads to the same hashes.
    pub(super) fn adopt(&self, seed: Seed, probe: u64) -> Result<(), RestoreError> {
        let seeded = Seeded::new(seed);
        if seeded.state.hash_one(KNOWN_KEY) != probe {
            return Err(RestoreError::Hash);
        }
        if self.0.get_or_init(|| seeded).seed == seed { Ok(()) } else { Err(RestoreError::InUse) }
    }
}

impl Seeded {
    fn new(seed: Seed) -> Self {
        let [a, b, c, d] = seed;
        Self { state: ahash::RandomState::with_seeds(a, b, c, d), seed }
    }
}

fn random() -> Seed {
    // The same in each run of a history: which keys are neighbours can decide what a call is told after a clock stepped
    // back. Nothing is drawn, so that what a history draws does not depend on it.
    #[cfg(feature = "simulation")]
    if crate::clock::SimulatedTime::is_shown() {
        let mut random = fastrand::Rng::with_seed(fastrand::get_seed());
        return [0; 4].map(|_: u64| random.u64(..));
    }
    let random = ahash::RandomState::new();
    [0, 1, 2, 3].map(|i: u64| random.hash_one(i))
}
