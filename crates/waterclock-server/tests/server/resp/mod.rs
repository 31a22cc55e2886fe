//! The Redis protocol.

mod access;
mod cell;
mod checks;
pub(crate) mod client;
mod connect;
mod draining;
mod ground;
mod hold;
mod hostile;
mod limits;
mod names;
mod overrides;
mod parser;
mod patience;
mod pipeline;
mod redis;
mod rl;
mod units;
