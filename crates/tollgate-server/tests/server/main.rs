//! The server through real sockets.

mod at_work;
mod client;
mod grpc;
mod http;
mod patience;
mod resp;
mod restart;
