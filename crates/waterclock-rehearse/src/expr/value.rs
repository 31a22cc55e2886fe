//! What a field or an expression is for one line.

use std::borrow::Cow;

use waterclock_core::Decimal;

/// A value, borrowed from the line where that is possible.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'v> {
    /// The line does not have it.
    Missing,
    Text(Cow<'v, str>),
    Number(Decimal),
    Truth(bool),
}

impl<'v> Value<'v> {
    pub(crate) fn text(text: &'v str) -> Value<'v> {
        Value::Text(Cow::Borrowed(text))
    }

    /// As a text, unless it is missing.
    pub(crate) fn into_text(self) -> Option<Cow<'v, str>> {
        match self {
            Value::Missing => None,
            Value::Text(text) => Some(text),
            Value::Number(number) => Some(number.to_string().into()),
            Value::Truth(truth) => Some(if truth { "true" } else { "false" }.into()),
        }
    }

    /// As a number, unless it is missing; or why it is none.
    pub(crate) fn to_number(&self) -> Result<Option<Decimal>, String> {
        match self {
            Value::Missing => Ok(None),
            Value::Number(number) => Ok(Some(*number)),
            Value::Text(text) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(format!("{} is not a number", quoted(text))),
            },
            Value::Truth(truth) => Err(format!("{truth} is not a number")),
        }
    }

    /// As a condition; what is missing is false.
    pub(crate) fn to_truth(&self) -> Result<bool, String> {
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

/// In quotes, on one line, cut after 60 characters.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// A kind of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    Truth,
    /// Known only when the line is read.
    Any,
}

impl Kind {
    /// The kind of one of two values.
    pub(super) fn or(self, other: Kind) -> Kind {
        if self == other { self } else { Kind::Any }
    }

    /// For error messages.
    pub(super) fn words(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Number => "a number",
            Kind::Truth => "a condition",
            Kind::Any => "a value",
        }
    }
}
