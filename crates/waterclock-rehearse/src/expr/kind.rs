//! What an expression can be told to be before any line is read.

/// A kind of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Truth,
    /// Whatever the line says.
    Any,
}

impl Kind {
    /// What two possible values have in common.
    pub(super) fn or(self, other: Kind) -> Kind {
        if self == other { self } else { Kind::Any }
    }

    /// For complaints.
    pub(super) fn said(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Number => "a number",
            Kind::Truth => "a condition",
            Kind::Any => "a value",
        }
    }
}
