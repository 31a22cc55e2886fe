//! A file that is imported, and the errors that point into it.

use std::path::Path;

use serde_saphyr::{Error, Location};
use waterclock_config::cannot_read;

use crate::output::Failure;

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 16 * 1_024 * 1_024;

/// A file: its name, for messages, and its text.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
}

impl Source {
    pub(super) fn read(path: &Path) -> Result<Source, Failure> {
        let name = path.display().to_string();
        let size = std::fs::metadata(path).map_err(|error| cannot_read(&name, &error))?.len();
        if size > MAX_BYTES {
            return Err(format!("{name}: is larger than 16 MiB; import a part of it").into());
        }
        let text = std::fs::read_to_string(path).map_err(|error| cannot_read(&name, &error))?;
        if text.trim().is_empty() {
            return Err(format!("{name}: is empty: nothing to import").into());
        }
        Ok(Source { name, text })
    }
}

/// `file:line:column: sentence`.
pub(super) fn problem(file: &str, at: Option<Location>, sentence: impl AsRef<str>) -> Failure {
    let sentence = sentence.as_ref();
    Failure::from(match at {
        Some(at) => format!("{file}:{}:{}: {sentence}", at.line(), at.column()),
        None => format!("{file}: {sentence}"),
    })
}

/// The text is not YAML, or not the YAML that is expected.
pub(super) fn not_yaml(file: &str, error: Error) -> Failure {
    let at = error.location();
    let message = error.without_snippet().to_string();
    // The place stands before the sentence already.
    let first = message.lines().next().unwrap_or_default();
    let sentence = first.rfind(" at line ").map_or(first, |end| &first[..end]);
    problem(file, at, sentence)
}
