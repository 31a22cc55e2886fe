//! Why a store did not decide.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use waterclock_core::{CostError, PolicyError};

use super::{BadReservation, Failure, MAX_KEPT_BYTES, MAX_KEPT_POLICIES};

/// Why a store did not decide.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// No policy of this name was ever set.
    UnknownPolicy(String),
    /// The store cannot run this policy, or this call, exactly.
    Unfit(Unfit),
    /// There is no reservation of this id: there never was, or its time is over.
    UnknownReservation(String),
    /// The reservation is invalid, or differs from the one with the same id.
    BadReservation(BadReservation),
    /// The policy does not count these units.
    BadCost(CostError),
    /// There is no room to [keep](super::Store::keep_policy) this policy.
    KeptFull(String),
    /// The store's settings are invalid.
    Settings(Detail),
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

    /// What this store or this call cannot do, in a sentence.
    pub fn unfit(detail: impl Into<Detail>) -> Self {
        Self::Unfit(Unfit::Other(detail.into()))
    }

    /// What is wrong with the store's settings, in a sentence.
    pub fn settings(detail: impl Into<Detail>) -> Self {
        Self::Settings(detail.into())
    }

    /// For stores: a check of a policy that [only reserves](waterclock_core::Policy::reserves_only).
    #[must_use]
    pub fn reserves_only(policy: &str) -> Self {
        Self::Unfit(Unfit::ReservesOnly(policy.to_owned()))
    }

    /// For stores: one key, charged under two policies that share it.
    #[must_use]
    pub fn two_variants(one: &str, other: &str) -> Self {
        Self::Unfit(Unfit::TwoVariants(one.to_owned(), other.to_owned()))
    }

    /// For stores: one key of this policy, charged by two factors.
    #[must_use]
    pub fn two_factors(policy: &str) -> Self {
        Self::unfit(format!(
            "one check charges a key of policy `{policy}` by two factors; use one of them"
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
            Self::Unfit(unfit) => unfit.fmt(f),
            Self::BadReservation(bad) => bad.fmt(f),
            Self::BadCost(error) => error.fmt(f),
            Self::KeptFull(name) => write!(
                f,
                "there is no room to keep policy `{name}`: a store keeps at most {MAX_KEPT_POLICIES} policies of \
                 {} MiB together; delete some",
                MAX_KEPT_BYTES >> 20
            ),
            Self::Settings(detail) => detail.fmt(f),
            Self::Failed { kind, reason, .. } | Self::Denied { kind, reason } => {
                write!(f, "the store failed ({}): {reason}", kind.name())
            }
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unfit(unfit) => unfit.source(),
            Self::BadReservation(bad) => bad.source(),
            Self::BadCost(error) => Some(error),
            Self::Settings(detail) => detail.source(),
            _ => None,
        }
    }
}

/// A policy that this store cannot run.
impl From<PolicyError> for StoreError {
    fn from(error: PolicyError) -> Self {
        Self::Unfit(Unfit::Policy(error))
    }
}

impl From<CostError> for StoreError {
    fn from(error: CostError) -> Self {
        Self::BadCost(error)
    }
}

impl From<BadReservation> for StoreError {
    fn from(bad: BadReservation) -> Self {
        Self::BadReservation(bad)
    }
}

/// Why a store cannot run a policy, or a call, exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// A check of this policy, which has a concurrency limit: only a reservation can hold one.
    ReservesOnly(String),
    /// One key, charged under both of these policies, which share it.
    TwoVariants(String, String),
    /// A reservation, in a store that has none.
    NoReservations,
    /// The policy is invalid, or is where it is divided or shared.
    Policy(PolicyError),
    /// Something else, which the store explains.
    Other(Detail),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReservesOnly(policy) => write!(
                f,
                "`{policy}` has a concurrency limit, which only a reservation can hold; reserve instead of \
                 checking"
            ),
            Self::TwoVariants(one, other) => write!(
                f,
                "one check charges a key under `{one}` and under `{other}`, which share it; charge it under \
                 one of them"
            ),
            Self::NoReservations => f.write_str("this store cannot hold reservations"),
            Self::Policy(error) => error.fmt(f),
            Self::Other(detail) => detail.fmt(f),
        }
    }
}

impl Error for Unfit {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Policy(error) => Some(error),
            Self::Other(detail) => detail.source(),
            _ => None,
        }
    }
}

/// A sentence for people, and the error behind it where there is one.
#[derive(Clone, Debug)]
pub struct Detail {
    sentence: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl Detail {
    /// What an error says.
    pub fn of(error: impl Error + Send + Sync + 'static) -> Self {
        Self::from(error.to_string()).caused_by(error)
    }

    /// The same with the error that caused it. The sentence should contain what it says.
    #[must_use]
    pub fn caused_by(mut self, error: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(error));
        self
    }
}

impl<S: Into<String>> From<S> for Detail {
    fn from(sentence: S) -> Self {
        Self { sentence: sentence.into(), source: None }
    }
}

/// Two are the same if they read the same.
impl PartialEq for Detail {
    fn eq(&self, other: &Self) -> bool {
        self.sentence == other.sentence
    }
}

impl Eq for Detail {}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl Error for Detail {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|error| &**error as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_their_causes() {
        let cause = |error: &StoreError| error.source().map(ToString::to_string);
        let policy = PolicyError::ManyLimits(17);
        let error = StoreError::from(policy.clone());
        assert_eq!(error.to_string(), policy.to_string());
        assert_eq!(cause(&error), Some(policy.to_string()));
        let number = "x".parse::<u8>().unwrap_err();
        let detail = Detail::from("`port` is wrong").caused_by(number.clone());
        for error in [StoreError::unfit(detail.clone()), StoreError::settings(detail)] {
            assert_eq!(error.to_string(), "`port` is wrong");
            assert_eq!(cause(&error), Some(number.to_string()));
        }
        assert_eq!(cause(&StoreError::reserves_only("p")), None);
    }
}
