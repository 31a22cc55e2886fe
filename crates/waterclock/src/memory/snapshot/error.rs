use std::{fmt, io};

/// Why a snapshot was not restored; the store is as it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// It could not be read.
    Io(io::Error),
    /// It is something else.
    Foreign,
    /// It was written in a version of the format that this program does not know.
    Version(u64),
    /// It is a snapshot no longer: cut off or changed since.
    Damaged,
    /// It was written by a program that hashes keys differently, so no key would be found.
    Hash,
    /// The store has been asked before, with another seed.
    InUse,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the snapshot cannot be read: {error}"),
            Self::Foreign => f.write_str("this file is not a snapshot; give one that a store wrote"),
            Self::Version(version) => write!(
                f,
                "the snapshot is of version {version}, which this program does not know; restore it with \
                 the program that wrote it"
            ),
            Self::Damaged => f.write_str(
                "the snapshot is cut off or was changed since it was written; take an older one",
            ),
            Self::Hash => f.write_str(
                "the snapshot was written by a build that hashes keys differently; restore it with that build",
            ),
            Self::InUse => f.write_str(
                "the store has been asked before the snapshot was restored; restore it before the first check",
            ),
        }
    }
}

impl std::error::Error for RestoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Io(error) = self { Some(error) } else { None }
    }
}

impl From<io::Error> for RestoreError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
