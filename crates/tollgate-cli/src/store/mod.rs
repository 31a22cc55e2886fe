//! Stores outside this process: their addresses, their failures, and what it takes to ask them.

mod address;
mod runtime;
mod trouble;

pub(crate) use self::address::{Address, not_an_address};
pub(crate) use self::runtime::block_on;
pub(crate) use self::trouble::sentence;
