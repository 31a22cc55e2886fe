//! What a report adds about its traffic: a sentence for people, and its facts for programs.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

/// A note about an input or a report. Displays as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Note {
    /// What it is about, such as `skipped-lines`. Codes stay; sentences may change.
    pub code: &'static str,
    /// Its numbers and names.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
    /// The sentence.
    pub message: String,
}

impl Note {
    /// A note with facts, which are an object.
    pub(crate) fn new(code: &'static str, facts: Value, message: impl Into<String>) -> Note {
        let facts = if let Value::Object(facts) = facts { facts } else { Map::new() };
        Note { code, facts, message: message.into() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
