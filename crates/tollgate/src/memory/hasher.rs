//! How keys become fingerprints. The seed is chosen late, so that it can be one that was saved.

use std::sync::OnceLock;

/// The numbers that a hash depends on beside its key.
type Seed = [u64; 4];

#[derive(Debug, Default)]
pub(super) struct Hasher(OnceLock<ahash::RandomState>);

impl Hasher {
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.state().hash_one(key)
    }

    #[inline]
    fn state(&self) -> &ahash::RandomState {
        self.0.get_or_init(|| with_seed(random()))
    }
}

fn random() -> Seed {
    let random = ahash::RandomState::new();
    [0, 1, 2, 3].map(|i: u64| random.hash_one(i))
}

fn with_seed([a, b, c, d]: Seed) -> ahash::RandomState {
    ahash::RandomState::with_seeds(a, b, c, d)
}
