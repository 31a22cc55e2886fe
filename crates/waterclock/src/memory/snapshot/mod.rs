//! What a memory store remembers, in a file.
//!
//! A snapshot is a row of 64-bit words, little-endian:
//!
//! ```text
//! magic, version, when it was written, seed of the hash (4), what the hash makes of a known key
//! sections, each of one kind:
//!   1  a policy: its name and definition, how many variants it has, and their names and definitions;
//!      the shards that follow are written under these
//!   2  a shard: the latest instant it has seen, its number, how many there are, whether it has an
//!      overflow entry and how many keys; then that entry and those keys
//!   0  the end
//! a sum over all words before it
//! ```
//!
//! A text is its length in bytes and the words they fill. A key is its fingerprint; where there are
//! variants, the number of the one that it was last charged under, from 1, or 0; the words of its state;
//! then, for each of its logs, the number of entries and the entries.

mod error;
mod parse;
mod restore;
mod words;
mod write;

pub use error::RestoreError;
pub use restore::Restored;
pub use write::Saved;

/// "waterclock", as its bytes are in the file.
const MAGIC: u64 = u64::from_le_bytes(*b"wtrclock");
const VERSION: u64 = 1;
const END: u64 = 0;
const POLICY: u64 = 1;
const SHARD: u64 = 2;
