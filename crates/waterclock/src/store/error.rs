//! Why a store did not decide.

use std::fmt;

use waterclock_core::{CostError, PolicyError};

/// Why a store did not decide.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// No policy of this name was ever set.
    UnknownPolicy(String),
    /// The store cannot run this policy, or this call, exactly.
    Unfit(String),
    /// There is no reservation of this id: there never was, or its time is over.
    UnknownReservation(String),
    /// The reservation is invalid, or differs from the one with the same id.
    BadReservation(String),
    /// The policy does not count these units.
    BadCost(CostError),
    /// The store's settings are invalid.
    Settings(String),
    /// The store did not answer, or not with a valid answer.
    Failed {
        /// What went wrong, for metrics.
        kind: Failure,
        /// What went wrong, for people.
        reason: String,
        /// Whether the call may have charged all the same, so that it must not be repeated.
        may_have_charged: bool,
    },
    /// The server's own store failed, and the policy denies then. Nothing answers in its place.
    Denied {
        /// How the server's store failed.
        kind: Failure,
        /// What the server said.
        reason: String,
    },
}

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

    /// Whether a call that failed like this may have charged, unless its [`StoreError`] says more.
    fn may_have_charged(self) -> bool {
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

impl StoreError {
    /// A failure of this kind. An `Unreachable` one is from before anything was sent.
    pub fn failed(kind: Failure, reason: impl fmt::Display) -> Self {
        let may_have_charged = kind.may_have_charged();
        Self::Failed { kind, reason: reason.to_string(), may_have_charged }
    }

    /// The same failure of a call that was sent and may have charged.
    #[must_use]
    pub fn after_sending(mut self) -> Self {
        if let Self::Failed { may_have_charged, .. } = &mut self {
            *may_have_charged = true;
        }
        self
    }

    /// The same failure of a call that certainly charged nothing.
    #[must_use]
    pub fn before_charging(mut self) -> Self {
        if let Self::Failed { may_have_charged, .. } = &mut self {
            *may_have_charged = false;
        }
        self
    }

    /// Whether the call that failed may have charged. Only calls that certainly did not may be repeated.
    #[must_use]
    pub fn may_have_charged(&self) -> bool {
        match self {
            Self::Failed { may_have_charged, .. } => *may_have_charged,
            Self::Denied { kind, .. } => !matches!(kind, Failure::Open | Failure::Overloaded),
            _ => true,
        }
    }

    /// For stores: a check of a policy that [only reserves](waterclock_core::Policy::reserves_only).
    #[must_use]
    pub fn reserves_only(policy: &str) -> Self {
        Self::Unfit(format!(
            "`{policy}` has a concurrency limit, which only a reservation can hold; reserve instead of \
             checking"
        ))
    }

    /// For stores: one key, charged under two policies that share it.
    #[must_use]
    pub fn two_variants(one: &str, other: &str) -> Self {
        Self::Unfit(format!(
            "one check charges a key under `{one}` and under `{other}`, which share it; charge it under \
             one of them"
        ))
    }

    /// The kind of failure, if the store failed; `None` if the call was wrong.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        match self {
            Self::Failed { kind, .. } | Self::Denied { kind, .. } => Some(*kind),
            _ => None,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy(name) => write!(f, "there is no policy `{name}`"),
            Self::UnknownReservation(id) => {
                write!(f, "there is no reservation `{id}`; it was never made, or its time is over")
            }
            Self::Unfit(reason) | Self::Settings(reason) | Self::BadReservation(reason) => {
                f.write_str(reason)
            }
            Self::BadCost(error) => error.fmt(f),
            Self::Failed { kind, reason, .. } | Self::Denied { kind, reason } => {
                write!(f, "the store failed ({}): {reason}", kind.name())
            }
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::BadCost(error) = self { Some(error) } else { None }
    }
}

/// A policy that this store cannot run.
impl From<PolicyError> for StoreError {
    fn from(error: PolicyError) -> Self {
        Self::Unfit(error.to_string())
    }
}

impl From<CostError> for StoreError {
    fn from(error: CostError) -> Self {
        Self::BadCost(error)
    }
}
