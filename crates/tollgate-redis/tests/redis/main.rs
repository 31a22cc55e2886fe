//! The store on real servers.

mod parity;
