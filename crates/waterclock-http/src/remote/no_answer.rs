//! Why a question has no answer, and whether somebody else may give one.

use waterclock::StoreError;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The server is well and says that there is none: nobody here knows better.
    Said(StoreError),
    /// The server did not say anything of use, or was not asked.
    Missing(StoreError),
}

impl NoAnswer {
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::Said(error) | Self::Missing(error) => error,
        }
    }
}

/// What is a failure on the way is no word of the server's; what is wrong with a question is.
impl From<StoreError> for NoAnswer {
    fn from(error: StoreError) -> Self {
        if error.failure().is_some() { Self::Missing(error) } else { Self::Said(error) }
    }
}
