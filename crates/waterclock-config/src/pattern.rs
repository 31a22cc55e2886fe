//! Which values of an entry a rule is about.

use std::cmp::Ordering;
use std::fmt;

/// The longest key or value of an entry, in bytes.
pub const MAX_TEXT: usize = 1_024;

/// Which values an entry may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// This one.
    Exact(String),
    /// Those that begin like this.
    Prefix(String),
    /// Whatever it is.
    Any,
}

impl Pattern {
    /// As files write it: a `*` at the end stands for any rest, anywhere else for itself.
    #[must_use]
    pub fn parse(text: &str) -> Pattern {
        match text.strip_suffix('*') {
            Some(prefix) => Pattern::Prefix(prefix.to_owned()),
            None => Pattern::Exact(text.to_owned()),
        }
    }

    /// Whether it is about every value that the other one is about.
    #[must_use]
    pub fn covers(&self, other: &Pattern) -> bool {
        match (self, other) {
            (Pattern::Any, _) => true,
            (Pattern::Prefix(prefix), Pattern::Any) => prefix.is_empty(),
            (Pattern::Prefix(prefix), Pattern::Exact(text) | Pattern::Prefix(text)) => {
                text.starts_with(prefix.as_str())
            }
            (Pattern::Exact(text), other) => *other == Pattern::Exact(text.clone()),
        }
    }

    /// The more specific one is the greater: one value before a long beginning before a short one
    /// before anything.
    #[must_use]
    pub fn specificity(&self, other: &Pattern) -> Ordering {
        let rank = |pattern: &Pattern| match pattern {
            Pattern::Exact(_) => (2, 0),
            Pattern::Prefix(prefix) => (1, prefix.len()),
            Pattern::Any => (0, 0),
        };
        rank(self).cmp(&rank(other))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Exact(text) => write!(f, "{text:?}"),
            Pattern::Prefix(prefix) => write!(f, "{:?}", format!("{prefix}*")),
            Pattern::Any => f.write_str("any value"),
        }
    }
}
