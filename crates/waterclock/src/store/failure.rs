//! How a store fails.

/// How a store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// No answer within the deadline; the charge may have been made.
    Timeout,
    /// No connection, or it was lost.
    Unreachable,
    /// The breaker is open: the store was not called.
    Open,
    /// Too many calls are waiting already: the store was not called.
    Overloaded,
    /// The server is loading its data.
    Loading,
    /// The server is a replica, or may not write.
    ReadOnly,
    /// The server is out of memory.
    OutOfMemory,
    /// The server rejects the credentials, or does not permit the command.
    Auth,
    /// The server's version is too old.
    Version,
    /// The key holds something that Waterclock did not write.
    Foreign,
    /// An answer that cannot be understood.
    BadReply,
}

impl Failure {
    /// Every kind of failure.
    pub const ALL: [Self; 11] = [
        Self::Timeout,
        Self::Unreachable,
        Self::Open,
        Self::Overloaded,
        Self::Loading,
        Self::ReadOnly,
        Self::OutOfMemory,
        Self::Auth,
        Self::Version,
        Self::Foreign,
        Self::BadReply,
    ];

    /// Whether a call that failed like this may have charged, unless its [`StoreError`](super::StoreError) says more.
    pub(super) fn may_have_charged(self) -> bool {
        use Failure::{Auth, Loading, Open, OutOfMemory, Overloaded, ReadOnly, Unreachable};
        !matches!(self, Open | Overloaded | Unreachable | Loading | ReadOnly | OutOfMemory | Auth)
    }

    /// Whether the server is to blame, so that a [`Breaker`](crate::fallback::Breaker) counts it.
    #[must_use]
    pub fn trips_breaker(self) -> bool {
        use Failure::{Auth, BadReply, Loading, ReadOnly, Timeout, Unreachable, Version};
        matches!(self, Timeout | Unreachable | Loading | ReadOnly | Auth | BadReply | Version)
    }

    /// The metric label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Open => "open",
            Self::Overloaded => "overloaded",
            Self::Loading => "loading",
            Self::ReadOnly => "readonly",
            Self::OutOfMemory => "oom",
            Self::Auth => "auth",
            Self::Version => "version",
            Self::Foreign => "foreign",
            Self::BadReply => "bad-reply",
        }
    }
}
