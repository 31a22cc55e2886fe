//! Ids for those who bring none.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes ids of 128 bits that nobody can guess and no other node makes: by a hash that hides its key, which
/// the system chose at random.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    hash: RandomState,
    made: AtomicU64,
}

impl Ids {
    pub(super) fn next(&self) -> String {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        let half = |which: u64| self.hash.hash_one((made, which));
        format!("{:016x}{:016x}", half(0), half(1))
    }
}
