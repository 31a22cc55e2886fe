#![doc = include_str!("../docs/guide.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod builder;
mod call;
mod cluster;
mod denied;
mod direct;
mod due;
mod fit;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod kept;
mod keyspace;
mod lease;
mod link;
mod nodes;
mod overrides;
mod policies;
mod prefix;
mod reservation;
mod route;
mod script;
mod shape;
mod slots;
mod state;
mod store;
mod translate;

pub use address::masked;
pub use builder::RedisStoreBuilder;
pub use fit::check_names;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub use link::simulated::{Dialled, SimulatedNetwork};
pub use store::RedisStore;
pub use waterclock::{Lease, OnStoreError, Serving};

/// Tests the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
