//! Waterclock's server as a library: one engine, and faces that translate protocols to it.
//!
//! ```text
//! wire ─▶ face ─▶ Ask{policy, key, cost} ─▶ Engine ─▶ Store
//! wire ◀─ face ◀────────── Reply ◀──────────┘
//! ```

pub mod access;
mod authorities;
pub mod engine;
mod face;
mod last_call;
mod listen;
pub mod observe;
mod pace;
mod paced;
mod redis_store;
mod reload;
pub mod rules;
mod run;
mod server;
mod snapshot;
mod timing;
mod tls;

pub use self::authorities::Authorities;
/// The messages of Envoy's rate limit service, with a client.
pub use self::face::grpc::proto as envoy;
/// For those who feed it with anything.
#[doc(hidden)]
pub use self::face::resp::parse as resp_parse;
pub use self::listen::Listeners;
pub use self::pace::Patience;
pub use self::redis_store::redis_store;
pub use self::reload::{LastReload, ReloadStatus, Reloads};
pub use self::run::{Running, run};
pub use self::server::{Phase, Server};
pub use self::timing::{Room, Timing};
