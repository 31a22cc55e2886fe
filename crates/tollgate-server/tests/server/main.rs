//! The server through real sockets.

mod at_work;
mod client;
mod http;
mod resp;
mod restart;
