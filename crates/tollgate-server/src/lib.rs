//! Tollgate's server as a library: one engine, and faces that translate protocols to it.
//!
//! ```text
//! wire ─▶ face ─▶ Ask{policy, key, cost} ─▶ Engine ─▶ Store
//! wire ◀─ face ◀────────── Reply ◀──────────┘
//! ```

pub mod access;
pub mod config;
pub mod decision_line;
pub mod engine;
pub mod face;
pub mod observe;
mod server;

pub use self::server::{Phase, Server};
