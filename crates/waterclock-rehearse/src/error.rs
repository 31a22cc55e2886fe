//! Why a rehearsal stops.

use std::fmt;
use std::io;

use waterclock::{CostError, Failure, StoreError};
use waterclock_config::Invalid;
use waterclock_redis::masked;

/// Why a rehearsal stops. Displayed, it is a sentence that says where and what to do, or several lines of them.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is not valid.
    Config(Invalid),
    /// A trace, a log, an expression or an option cannot be used.
    Input(String),
    /// A store failed.
    Store {
        /// The address of the store; none where it is in memory.
        url: Option<String>,
        /// What it answered.
        error: StoreError,
    },
    /// The output cannot be written.
    Output(io::Error),
    /// A second error while the first was handled.
    Both(Box<(Error, Error)>),
}

impl Error {
    /// A failure of the store at an address.
    #[must_use]
    pub fn store(url: &str, error: StoreError) -> Error {
        Error::Store { url: Some(url.to_owned()), error }
    }

    /// Both, in this order.
    #[must_use]
    pub fn and(self, other: Error) -> Error {
        Error::Both(Box::new((self, other)))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Config(invalid) => invalid.fmt(f),
            Error::Input(sentence) => f.write_str(sentence),
            Error::Store { url: Some(url), error: error @ StoreError::Failed { kind, .. } } => {
                let what = one_line(&error.to_string());
                write!(f, "{}: {what}{}", masked(url), advice(*kind))
            }
            // These name the policy or the address themselves.
            Error::Store { error, .. } => f.write_str(&one_line(&error.to_string())),
            Error::Output(error) => write!(f, "the output cannot be written: {error}"),
            Error::Both(both) => write!(f, "{}\n{}", both.0, both.1),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Store { error, .. } => Some(error),
            Error::Output(error) => Some(error),
            Error::Both(both) => Some(&both.0),
            Error::Config(_) | Error::Input(_) => None,
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// What to do about a failure, where that is known.
fn advice(kind: Failure) -> &'static str {
    match kind {
        Failure::Unreachable => "; check the address",
        Failure::Auth => "; check the user and the password",
        Failure::ReadOnly => "; name the primary, or use redis-sentinel://",
        _ => "",
    }
}

impl From<String> for Error {
    fn from(sentence: String) -> Error {
        Error::Input(sentence)
    }
}

impl From<&str> for Error {
    fn from(sentence: &str) -> Error {
        Error::Input(sentence.to_owned())
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Error {
        Error::Config(invalid)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Store { url: None, error }
    }
}

impl From<CostError> for Error {
    fn from(error: CostError) -> Error {
        Error::Input(error.to_string())
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Output(error)
    }
}
