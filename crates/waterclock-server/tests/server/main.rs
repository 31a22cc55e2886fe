//! The server through real sockets.

mod access;
mod at_work;
mod certificates;
mod client;
mod drain;
mod fuzz;
mod grpc;
mod hostile;
mod http;
mod kept;
mod otlp;
mod overload;
mod patience;
mod pools;
mod reload;
mod remote;
mod resp;
mod restart;
mod shared;
mod strangers;
mod tls;
mod waits;
mod xds;
