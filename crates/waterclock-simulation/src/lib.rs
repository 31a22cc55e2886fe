#![doc = include_str!("../README.md")]

pub mod cluster;
mod draw;
pub mod keyspace;
pub mod lua;
pub mod network;
pub mod node;
pub mod oracle;
pub mod plan;
pub mod plant;
pub mod resp;
pub mod run;
pub mod sentinels;
pub mod server;
pub mod shrink;
mod strike;
mod structs;
pub mod told;
