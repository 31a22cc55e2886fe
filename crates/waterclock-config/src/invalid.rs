//! Why a configuration cannot be used.

use std::fmt;
use std::io;

/// Sentences about a configuration that cannot be used, one line each, with their places where there
/// are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    lines: Vec<String>,
}

impl Invalid {
    pub(crate) fn new(lines: impl IntoIterator<Item = String>) -> Invalid {
        Invalid { lines: lines.into_iter().collect() }
    }

    /// The sentences.
    #[must_use]
    pub fn into_lines(self) -> Vec<String> {
        self.lines
    }
}

impl From<String> for Invalid {
    fn from(line: String) -> Invalid {
        Invalid { lines: vec![line] }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join("\n"))
    }
}

impl std::error::Error for Invalid {}

/// Why a file cannot be read.
#[must_use]
pub fn cannot_read(name: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("{name}: there is no such file"),
        io::ErrorKind::IsADirectory => format!("{name}: this is a directory, not a file"),
        _ => format!("{name}: cannot be read: {error}"),
    }
}
