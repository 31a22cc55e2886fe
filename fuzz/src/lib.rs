//! What several targets share: a server without sockets, and policies from bytes.

pub mod policies;
pub mod server;
