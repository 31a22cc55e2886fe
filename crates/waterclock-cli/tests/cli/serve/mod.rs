//! `waterclock serve`: the real process, real signals, real sockets.

mod banner;
pub(crate) mod client;
mod descriptors;
mod drain;
mod environment;
mod first_run;
mod floods;
mod log;
mod nodes;
pub(crate) mod process;
mod signals;
