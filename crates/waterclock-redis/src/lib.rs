#![doc = include_str!("../docs/guide.md")]

mod address;
mod apart;
mod cluster;
mod decide;
mod degraded;
mod entry;
mod family;
mod held;
mod keyspace;
mod link;
mod reservation;
mod route;
mod script;
mod sentinel;
mod settings;
mod shape;
mod stand_in;
mod store;

pub use address::masked;
pub use family::MOST_BY_UNITS;
pub use settings::RedisStoreBuilder;
pub use store::RedisStore;
pub use waterclock::{Lease, OnStoreError, Serving};
