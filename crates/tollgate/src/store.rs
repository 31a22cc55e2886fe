//! The seam between those who ask and where state lives.

use std::fmt;

use tollgate_core::{Decision, LimitDecision, Policy};

/// One line of a check: this much, for this key, under this policy.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The name of a policy the store was given.
    pub policy: &'a str,
    /// What shares a budget.
    pub key: &'a [u8],
    /// How many units; 0 is a peek.
    pub cost: u64,
}

/// What to do with a check's charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Decide, and charge all of them or none.
    Check,
    /// Decide, charge nothing.
    Peek,
    /// Give back; then answer as a peek.
    Refund,
    /// Forget the keys; then answer as a peek.
    Reset,
}

/// The answer to one charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The decision of the policy as a whole.
    pub decision: Decision,
    /// Each limit's own numbers, in policy order.
    pub limits: Vec<LimitDecision>,
}

/// Where state lives: in this process, or elsewhere.
///
/// The boundary is data, because a closure cannot cross a network. What a decision means is the
/// same in every store; the conformance suites hold each of them to it.
pub trait Store: Send + Sync {
    /// Adds a policy, or replaces the one of its name; what was spent stays spent.
    fn set_policy(&self, policy: Policy) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Applies one check, atomically over all of its charges. The answers are in their order.
    ///
    /// Charges that name the same policy and key are summed first, and share their answer.
    fn apply(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> impl Future<Output = Result<Vec<Answer>, StoreError>> + Send;
}

/// Why a store has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// No policy of this name was ever set.
    UnknownPolicy(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy(name) => write!(f, "there is no policy `{name}`"),
        }
    }
}

impl std::error::Error for StoreError {}
