//! Waterclock's server as a library: one engine, and faces that translate protocols to checks.
//!
//! ```text
//! wire ─▶ face ─▶ Check{policy, key, cost} ─▶ Engine ─▶ Store
//! wire ◀─ face ◀─────────── Reply ◀────────────┘
//! ```

pub mod access;
mod buffers;
mod connections;
mod contained_rules;
mod describe;
mod descriptors;
pub mod engine;
mod examine;
mod face;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod lasting;
mod listen;
pub mod observe;
mod off_workers;
pub mod otlp;
mod pace;
mod rarely;
pub mod reference;
mod reload;
mod requests;
pub mod rules;
mod run;
mod server;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod timing;
mod tls;
mod waits;
mod xds;

pub use self::descriptors::raise_descriptor_limit;
pub use self::engine::redis_store;
pub use self::examine::{Outside, examine};
/// The messages of Envoy's rate limit service, with a client.
pub use self::face::grpc::proto as envoy;
pub use self::face::grpc::proto::{kuadrant, rate_limiter};
pub use self::face::resp::parse as resp;
pub use self::listen::{Listeners, SidePort};
pub use self::reload::{LastReload, ReloadStatus, Reloads};
pub use self::run::{Running, run};
pub use self::server::{Phase, Server};
pub use self::timing::{Patience, Room, Timing};
pub use self::tls::Authorities;
pub use self::xds::{XdsState, XdsStatus};

/// Tests the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
