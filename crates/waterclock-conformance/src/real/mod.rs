//! The real thing, for tests: Redis servers, clusters and sentinels on free loopback ports, and a
//! bad network in front of them.
//!
//! Everything here starts what it needs, waits until it works, and stops and removes it when
//! dropped; so keep none of it in a `static`, which is never dropped. What cannot be started is a
//! panic: a test without its Redis fails, it is not skipped.

mod clock;
mod cluster;
mod connection;
mod patience;
mod port;
mod process;
mod proxy;
mod redis;
mod reply;
mod sentinel;
mod settings;
mod tls;

pub use cluster::{Cluster, Move};
pub use connection::Connection;
pub use patience::await_that;
pub use port::{free_port, listener};
pub use process::Process;
pub use proxy::Proxy;
pub use redis::RedisServer;
pub use reply::Reply;
pub use sentinel::Sentinel;
pub use tls::Certificates;
