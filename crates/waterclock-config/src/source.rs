//! The text of a configuration file, and how to point into it.

use std::path::{Path, PathBuf};

use super::problem::Problem;

/// A file's name, as the user wrote it, and its text.
pub(crate) struct Source {
    name: String,
    text: String,
}

impl Source {
    pub(crate) fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source { name: name.into(), text: text.into() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// A path that the text names: relative ones start from the directory of the file.
    pub(crate) fn beside(&self, path: &str) -> PathBuf {
        Path::new(&self.name).parent().unwrap_or(Path::new("")).join(path)
    }

    /// One line an editor can jump to: `file:line:column: sentence`.
    pub(crate) fn point(&self, problem: &Problem) -> String {
        let (line, column) = self.line_and_column(problem.at);
        format!("{}:{line}:{column}: {}", self.name, problem.sentence)
    }

    /// Both count from 1; a column is a character, not a byte.
    fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before: String = self
            .text
            .char_indices()
            .take_while(|(index, _)| *index < at)
            .map(|(_, character)| character)
            .collect();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
        (line, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let source = Source::new("a.toml", "x = 1\nµ = \"é\" # here\n");
        let at = source.text().find('#').unwrap();
        assert_eq!(source.point(&Problem::at(at, "no")), "a.toml:2:9: no");
        assert_eq!(source.point(&Problem::at(9999, "end")), "a.toml:3:1: end");
    }
}
