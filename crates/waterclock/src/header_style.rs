//! Which header fields a response carries.

use std::fmt;

/// Which header fields tell a client about its limits.
///
/// A policy's serving metadata: this crate only names the styles, `waterclock-http` writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeaderStyle {
    /// No fields.
    None,
    /// `Retry-After`, on refusals only.
    #[default]
    RetryAfter,
    /// `RateLimit-Policy` and `RateLimit`, as in draft-ietf-httpapi-ratelimit-headers-11: `t` is the time over which
    /// `r` may be used.
    Ietf,
    /// The same fields as in draft 10: `t` is the time until `r` grows.
    Draft10,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset` in whole seconds, as in the third draft.
    Draft03,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Used` and `-Reset`, an instant of Unix time, as GitHub sends them.
    GitHub,
    /// `X-RateLimit-Remaining`, `-Clear` and `-Reset` in seconds with three decimals.
    Legacy,
}

impl HeaderStyle {
    /// Every style.
    pub const ALL: &'static [Self] = &[
        Self::None,
        Self::RetryAfter,
        Self::Ietf,
        Self::Draft10,
        Self::Draft03,
        Self::GitHub,
        Self::Legacy,
    ];

    /// The name used in configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::RetryAfter => "retry-after",
            Self::Ietf => "ietf",
            Self::Draft10 => "draft-10",
            Self::Draft03 => "draft-03",
            Self::GitHub => "github",
            Self::Legacy => "legacy",
        }
    }

    /// The reverse of [`HeaderStyle::name`].
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|style| style.name() == name)
    }
}

impl fmt::Display for HeaderStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
