//! Waterclock against its peers, in one process or over one Redis. See `README.md`.

pub mod case;
pub mod contestant;
pub mod field;
pub mod flags;
pub mod goal;
pub mod keys;
pub mod machine;
pub mod measure;
pub mod options;
pub mod pauses;
#[cfg(feature = "redis")]
pub mod remote;
pub mod report;
