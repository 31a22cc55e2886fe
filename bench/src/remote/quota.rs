//! What all contestants are set to.

use serde::Serialize;

/// So many units in so many seconds, and as many at once.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quota {
    pub limit: u64,
    pub seconds: u64,
}

/// Every decision admits: a million at once. No key is fresh again while it is looked at: a unit
/// returns after a hundred seconds.
pub const WIDE: Quota = Quota { limit: 1_000_000, seconds: 100_000_000 };

/// Exactly the first ten pass: no unit returns while it is looked at.
pub const NARROW: Quota = Quota { limit: 10, seconds: 3_600 };
