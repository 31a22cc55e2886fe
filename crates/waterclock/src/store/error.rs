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
    },
}

/// How a store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// No answer within the deadline; the charge may have been made.
    Timeout,
    /// No connection.
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
    /// A failure of this kind.
    pub fn failed(kind: Failure, reason: impl fmt::Display) -> Self {
        Self::Failed { kind, reason: reason.to_string() }
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
        if let Self::Failed { kind, .. } = self { Some(*kind) } else { None }
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
            Self::Failed { kind, reason } => {
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
