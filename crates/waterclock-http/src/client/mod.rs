//! The other side: requests that this program sends, kept to somebody else's limits.

mod authority;
mod honour;
mod pace;
mod patience;

pub use honour::{Honour, HonourError, HonourFuture, HonourLayer, advised_wait};
pub use pace::{Pace, PaceError, PaceFuture, PaceLayer, Pacer};

/// What the contract of futures forbids.
const AGAIN: &str = "a response was polled again after it was ready";
