//! Ids for those who bring none.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Makes ids of 128 bits that nobody can guess who does not know the two 64-bit keys of the hash, which the
/// system chose at random: SipHash is made to hide them.
#[derive(Debug, Default)]
pub(super) struct Ids {
    hash: RandomState,
    made: u64,
}

impl Ids {
    pub(super) fn next(&mut self) -> String {
        self.made += 1;
        let half = |which: u64| self.hash.hash_one((self.made, which));
        format!("{:016x}{:016x}", half(0), half(1))
    }
}
