//! A running server, asked from outside: its address, a token for it, and one connection.

mod address;
mod connection;
mod no_answer;
mod token;

pub(crate) use self::address::ServerAddress;
pub(crate) use self::connection::{Connection, Said, dial};
pub(crate) use self::no_answer::NoAnswer;
pub(crate) use self::token::Token;
