//! What is wrong with a configuration: every problem of a file at once, each with its place.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use serde::Serialize;

/// Why a configuration cannot be used.
///
/// Displays as one line per problem: `waterclock.toml:3:9: unknown key …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    problems: Vec<Problem>,
}

/// One problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The place in the file, where the problem has one.
    pub place: Option<Place>,
    /// What is wrong and what to write instead, in one sentence.
    pub message: String,
}

/// A place in a file that editors can jump to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Place {
    /// The file, as the user named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The character of the line, from 1.
    pub column: usize,
}

impl Invalid {
    pub(crate) fn new(problems: Vec<Problem>) -> Invalid {
        Invalid { problems }
    }

    /// Every problem, in the order of the file.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Every problem as one line of text.
    #[must_use]
    pub fn into_lines(self) -> Vec<String> {
        self.problems.iter().map(Problem::to_string).collect()
    }
}

impl FromIterator<Problem> for Invalid {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Invalid {
        Invalid::new(problems.into_iter().collect())
    }
}

impl IntoIterator for Invalid {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.problems.into_iter()
    }
}

impl From<String> for Invalid {
    fn from(message: String) -> Invalid {
        Invalid { problems: vec![Problem { place: None, message }] }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Why a file cannot be read, in one line that begins with its name.
#[must_use]
pub fn cannot_read(name: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("{name}: there is no such file"),
        io::ErrorKind::IsADirectory => format!("{name}: this is a directory, not a file"),
        _ => format!("{name}: cannot be read: {error}"),
    }
}

/// A problem while the text is read: the byte it points at and a message.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn at(at: usize, message: impl Into<String>) -> Fault {
        Fault { at, message: message.into() }
    }
}

/// The faults found so far. Readers of nested tables share it, hence the cell.
#[derive(Default)]
pub(crate) struct Faults {
    found: RefCell<Vec<Fault>>,
}

impl Faults {
    pub(crate) fn push(&self, fault: Fault) {
        self.found.borrow_mut().push(fault);
    }

    /// The value; a fault is recorded and gives `None`.
    pub(crate) fn keep<T>(&self, result: Result<T, Fault>) -> Option<T> {
        result.map_err(|fault| self.push(fault)).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// In the order of the file.
    pub(crate) fn into_invalid(self, source: &Source) -> Invalid {
        let mut found = self.found.into_inner();
        found.sort_by_key(|fault| fault.at);
        // Policies that inherit a value find the same fault in it.
        found.dedup_by(|later, fault| (later.at, &later.message) == (fault.at, &fault.message));
        let problem =
            |fault: Fault| Problem { place: Some(source.place(fault.at)), message: fault.message };
        Invalid::new(found.into_iter().map(problem).collect())
    }
}

/// A configuration's text under the name that errors use.
#[derive(Clone)]
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

    /// The place of a byte. Columns count characters.
    pub(crate) fn place(&self, at: usize) -> Place {
        let before: String = self
            .text
            .char_indices()
            .take_while(|(index, _)| *index < at)
            .map(|(_, character)| character)
            .collect();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
        Place { file: self.name.clone(), line, column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let source = Source::new("a.toml", "x = 1\nµ = \"é\" # here\n");
        let at = source.text().find('#').unwrap();
        assert_eq!(source.place(at).to_string(), "a.toml:2:9");
        assert_eq!(source.place(9999).to_string(), "a.toml:3:1");
    }

    #[test]
    fn problems_are_in_the_order_of_the_file() {
        let faults = Faults::default();
        faults.push(Fault::at(3, "later"));
        faults.push(Fault::at(0, "first"));
        let invalid = faults.into_invalid(&Source::new("a.toml", "x = 1"));
        assert_eq!(invalid.to_string(), "a.toml:1:1: first\na.toml:1:4: later");
        assert_eq!(invalid.problems()[1].place.as_ref().map(|place| place.column), Some(4));
    }
}
