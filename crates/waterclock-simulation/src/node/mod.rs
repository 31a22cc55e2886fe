//! Whole servers: engine, reservations, lines, reload and snapshots, with a store in memory and a simulated disk.
//!
//! A history is a row of lives of one node, each in a runtime of its own: what is dropped with it ends at whatever await
//! point it is, as in a crash.

pub mod disk;
pub mod oracle;
pub mod plan;
pub mod plant;
pub mod run;
pub mod shrink;

/// The seeds of these histories begin here; those before it are of stores that share a Redis.
pub const FIRST_SEED: u64 = 1_000_000_000_000_000_000;
