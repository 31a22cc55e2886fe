use std::error::Error;
use std::fmt;

use waterclock::{StoreError, WaitError};

/// Why a request that had to wait for its turn has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PaceError<E> {
    /// Its turn does not come. It was not sent, and nothing was charged.
    Wait(WaitError),
    /// The shared store has no answer. It was not sent.
    Store(StoreError),
    /// It was its turn, and the client failed.
    Inner(E),
}

/// Why a turn does not come.
#[derive(Debug)]
pub(super) enum Stopped {
    Wait(WaitError),
    Store(StoreError),
}

impl<E> From<Stopped> for PaceError<E> {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Wait(error) => Self::Wait(error),
            Stopped::Store(error) => Self::Store(error),
        }
    }
}

impl From<WaitError> for Stopped {
    fn from(error: WaitError) -> Self {
        Self::Wait(error)
    }
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl<E: fmt::Display> fmt::Display for PaceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait(error) => write!(f, "the request was not sent: {error}"),
            Self::Store(error) => write!(f, "the request was not sent: {error}"),
            Self::Inner(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for PaceError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(match self {
            Self::Wait(error) => error,
            Self::Store(error) => error,
            Self::Inner(error) => error,
        })
    }
}
