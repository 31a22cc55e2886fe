//! A running server, asked from outside: its address, what opens it, and one connection.

mod address;
mod connection;
mod dial;
mod handshake;
mod no_answer;
mod token;
mod trust;

pub(crate) use self::address::ServerAddress;
pub(crate) use self::connection::{Connection, Said};
pub(crate) use self::dial::{Server, Wire};
pub(crate) use self::no_answer::NoAnswer;
pub(crate) use self::token::Token;
pub(crate) use self::trust::Trust;
