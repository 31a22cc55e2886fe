//! The keys and the quota that all contestants share.

use waterclock_bench::remote::drive::key;
pub use waterclock_bench::remote::quota::{Quota, WIDE};

/// Two pass, and nothing returns while it is looked at. Not one: throttlecrab takes a burst of one for
/// no limit at all.
pub const NARROW: Quota = Quota { limit: 2, seconds: 3_600 };

/// Asked three times, a limiter set to [`NARROW`] answers this.
pub const PROOF: [bool; 3] = [true, true, false];

/// How many keys there are.
pub const KEYS: u64 = 10_000;

/// Keys in random order, the same for all contestants.
pub fn drawn(many: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(KEYS);
    (0..many).map(|_| key(random.u64(0..KEYS))).collect()
}

/// Each of them once.
pub fn all() -> impl Iterator<Item = String> {
    (0..KEYS).map(key)
}
