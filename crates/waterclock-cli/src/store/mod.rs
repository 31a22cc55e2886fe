//! Stores outside this process: their addresses, their failures, and what it takes to ask them.

mod runtime;
mod trouble;

pub(crate) use self::runtime::block_on;
pub(crate) use self::trouble::sentence;
