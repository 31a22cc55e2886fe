//! Whom everybody is asked about, and how much they may do.

use tollgate_bench::remote::drive::key;
pub use tollgate_bench::remote::quota::WIDE;

/// How many keys there are.
pub const KEYS: u64 = 10_000;

/// So many keys in random order, the same for everybody.
pub fn drawn(many: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(KEYS);
    (0..many).map(|_| key(random.u64(0..KEYS))).collect()
}

/// Each of them once.
pub fn all() -> impl Iterator<Item = String> {
    (0..KEYS).map(key)
}
