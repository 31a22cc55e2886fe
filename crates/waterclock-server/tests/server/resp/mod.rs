//! The Redis protocol.

mod access;
mod cell;
mod client;
mod connect;
mod draining;
mod ground;
mod hold;
mod hostile;
mod limits;
mod overrides;
mod parser;
mod patience;
mod pipeline;
mod redis;
mod rl;
mod units;
