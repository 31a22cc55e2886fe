//! What a field or an expression is for one line.

use std::borrow::Cow;

use super::ratio::Ratio;

/// A value, borrowed from the line where that is possible.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'v> {
    /// The line says nothing about it.
    Missing,
    Text(Cow<'v, str>),
    Number(Ratio),
    Truth(bool),
}

impl<'v> Value<'v> {
    pub fn text(text: &'v str) -> Value<'v> {
        Value::Text(Cow::Borrowed(text))
    }

    /// As a text, if there is anything.
    pub fn into_text(self) -> Option<Cow<'v, str>> {
        match self {
            Value::Missing => None,
            Value::Text(text) => Some(text),
            Value::Number(number) => Some(number.to_string().into()),
            Value::Truth(truth) => Some(if truth { "true" } else { "false" }.into()),
        }
    }

    /// As a number, if there is anything; or why it is none.
    pub fn to_number(&self) -> Result<Option<Ratio>, String> {
        match self {
            Value::Missing => Ok(None),
            Value::Number(number) => Ok(Some(*number)),
            Value::Text(text) => match Ratio::parse(text) {
                Some(number) => Ok(Some(number)),
                None => Err(format!("{} is not a number", quoted(text))),
            },
            Value::Truth(truth) => Err(format!("{truth} is not a number")),
        }
    }

    /// As a condition; what is not there does not hold.
    pub fn to_truth(&self) -> Result<bool, String> {
        match self {
            Value::Missing => Ok(false),
            Value::Truth(truth) => Ok(*truth),
            Value::Text(text) if text == "true" => Ok(true),
            Value::Text(text) if text == "false" => Ok(false),
            Value::Text(text) => Err(format!("{} is neither true nor false", quoted(text))),
            Value::Number(number) => Err(format!("{number} is neither true nor false")),
        }
    }
}

/// In quotes, on one line, and cut where it would swamp the sentence.
pub fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
