//! Tollgate against its peers, in one process on one machine. See `README.md`.

pub mod case;
pub mod contestant;
pub mod field;
pub mod keys;
pub mod machine;
pub mod measure;
pub mod options;
pub mod pauses;
pub mod report;
