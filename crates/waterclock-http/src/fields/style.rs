use std::fmt;

use waterclock::{Answer, Policy};

use super::{Fields, Told, fields};

/// How much a client is told, and in which words. The [crate's guide](crate) shows each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HeaderStyle {
    /// Nothing.
    None,
    /// `Retry-After`, when refused.
    #[default]
    RetryAfter,
    /// `RateLimit-Policy` and `RateLimit`, as the IETF's draft 10 has them.
    Ietf,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset` in whole seconds, as in the third draft.
    Draft03,
    /// `X-RateLimit-Remaining`, `-Clear` and `-Reset` with three decimals.
    Legacy,
}

impl HeaderStyle {
    /// Every style.
    pub const ALL: [Self; 5] =
        [Self::None, Self::RetryAfter, Self::Ietf, Self::Draft03, Self::Legacy];

    /// As configuration spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::RetryAfter => "retry-after",
            Self::Ietf => "ietf",
            Self::Draft03 => "draft-03",
            Self::Legacy => "legacy",
        }
    }

    /// The reverse of [`HeaderStyle::name`].
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|style| style.name() == name)
    }

    /// The fields for a check of one charge.
    #[must_use]
    pub fn fields(self, policy: &Policy, answer: &Answer) -> Fields {
        fields(&[Told { style: self, name: policy.name(), policy, answer }])
    }
}

impl fmt::Display for HeaderStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
