//! The store on real servers.

mod cluster;
mod four_processes;
mod parity;
mod sentinel;
mod tls;
