//! `tollgate serve`: the real process, real signals, real sockets.

mod banner;
mod client;
mod drain;
mod environment;
mod log;
mod process;
mod signals;
