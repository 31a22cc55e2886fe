//! Files that commands write.

use std::path::Path;

use crate::failure::Failure;

/// Writes a file whole or says why not.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| format!("{}: cannot be written: {error}", path.display()).into())
}
