//! Snapshots: the state of a memory store, in a file.
//!
//! A snapshot is a row of 64-bit words, little-endian:
//!
//! ```text
//! magic, version, when it was written, seed of the hash (4), the hash of a known key
//! sections, each of one kind:
//!   1  a policy: its name and definition, how many variants it has, and their names and definitions;
//!      the shards that follow are written under these
//!   2  a shard: the latest instant it has seen, its number, how many there are, whether it has an
//!      overflow entry and how many keys; then that entry and those keys
//!   3  keys of the shard before it with limits of their own: how many; and of each its fingerprint, its override,
//!      the limits by which its state was written, and the state
//!   4  policies that are kept as text, before all others: how many, and their names and texts
//!   0  the end
//! a sum over all words before it
//! ```
//!
//! An override is 0, or 1, its key, its rule as a text, and the instant at which it expires.
//!
//! A text is its length in bytes and the words they fill. A key is its fingerprint; where there are
//! variants, the number of the one that it was last charged under, from 1, or 0; the words of its state;
//! then, for each of its logs, the number of entries and the entries.

mod kept;
mod parse;
mod restore;
mod specials;
mod words;
mod write;

use std::{fmt, io};

pub use restore::Restored;
pub(crate) use words::{push_bytes, push_text};
pub use write::Saved;

/// "waterclock", as its bytes are in the file.
const MAGIC: u64 = u64::from_le_bytes(*b"wtrclock");
/// Without policies that are kept as text and overrides, which older programs do not know.
const VERSION: u64 = 1;
const VERSION_WITH_KEPT: u64 = 2;
const END: u64 = 0;
const POLICY: u64 = 1;
const SHARD: u64 = 2;
const SPECIALS: u64 = 3;
const KEPT: u64 = 4;

/// Why a snapshot was not restored; the store is as it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// It could not be read.
    Io(io::Error),
    /// It is not a snapshot.
    Foreign,
    /// It was written in a version of the format that this program does not know.
    Version(u64),
    /// It is cut off, or was changed since it was written.
    Damaged,
    /// It was written by a program that hashes keys differently, so no key would be found.
    Hash,
    /// The store was used before with another seed of its hash.
    InUse,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the snapshot cannot be read: {error}"),
            Self::Foreign => f.write_str("this file is not a snapshot; give one that a store wrote"),
            Self::Version(version) => write!(
                f,
                "the snapshot is of version {version}, which this program does not know; restore it with \
                 the program that wrote it"
            ),
            Self::Damaged => f.write_str(
                "the snapshot is cut off or was changed since it was written; take an older one",
            ),
            Self::Hash => f.write_str(
                "the snapshot was written by a build that hashes keys differently; restore it with that build",
            ),
            Self::InUse => f.write_str(
                "the store has been asked before the snapshot was restored; restore it before the first check",
            ),
        }
    }
}

impl std::error::Error for RestoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Io(error) = self { Some(error) } else { None }
    }
}

impl From<io::Error> for RestoreError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
