use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HonourError<E> {
    /// The server wants to be left alone for so much longer, which is beyond the deadline. It was not sent: one
    /// that was sent and refused has that refusal as its response.
    TooEarly(Duration),
    /// The client failed.
    Inner(E),
}

impl<E: fmt::Display> fmt::Display for HonourError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooEarly(wait) => write!(
                f,
                "the request was not sent: the server asked to be left alone for another {wait:?}, which is \
                 beyond the deadline"
            ),
            Self::Inner(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for HonourError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::TooEarly(_) => None,
            Self::Inner(error) => Some(error),
        }
    }
}
