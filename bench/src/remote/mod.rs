//! Limiters that keep their state in Redis: one server, one client, every contestant in turn.

pub mod build;
pub mod contestant;
pub mod control;
pub mod cores;
pub mod drive;
pub mod field;
pub mod goals;
pub mod options;
pub mod quota;
pub mod server;
pub mod table;
pub mod turn;

pub type Error = Box<dyn std::error::Error + Send + Sync>;
