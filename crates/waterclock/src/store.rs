//! The seam between those who ask and where state lives.

use std::fmt;

use waterclock_core::{Cost, CostError, Crossing, Decision, LimitDecision, Outcome, Policy};

use crate::hold::{Hold, Reserved, Settled, Settlement, not_here};

/// One line of a check: this much, for this key, under this policy.
#[derive(Clone, Debug)]
pub struct Charge<'a> {
    /// The name of a policy the store was given.
    pub policy: &'a str,
    /// What shares a budget.
    pub key: &'a [u8],
    /// How much; 0 is a peek. A policy that counts several units takes a number for each.
    pub cost: Cost,
}

impl<'a> Charge<'a> {
    /// This much, for this key, under this policy.
    ///
    /// ```
    /// use waterclock::{Charge, Cost};
    ///
    /// let one = Charge::new("login", b"alice", 1);
    /// let several = Charge::new("llm", b"alice", Cost::of_units([("tokens", 800)]));
    /// # assert!(one.cost == 1 && several.cost.of("tokens") == 800);
    /// ```
    pub fn new(policy: &'a str, key: &'a [u8], cost: impl Into<Cost>) -> Self {
        Self { policy, key, cost: cost.into() }
    }

    /// The same as its policy counts it.
    #[doc(hidden)]
    pub fn priced(&self, verb: Verb, policy: &Policy) -> Result<Self, StoreError> {
        Ok(Self { cost: verb.price(policy, Some(&self.cost))?, ..self.clone() })
    }
}

/// What to do with a check's charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Decide, and charge all of them or none.
    Check,
    /// Decide, charge nothing.
    Peek,
    /// Charge what was used already, whatever there is room for and into debt if need be; then answer as
    /// a peek.
    Debit,
    /// Take into account how what was admitted ended, as often as the cost says; then answer as a peek.
    /// Only limits by the share of errors care.
    Report(Outcome),
    /// Give back; then answer as a peek.
    Refund,
    /// Forget the keys; then answer as a peek.
    Reset,
}

impl Verb {
    /// A cost as a policy counts it. Where nobody says how much, it is one request. Of units that a cost does not name
    /// it is nothing, and one request; unless something is given back, or was used beside a request that is counted
    /// already. Whoever forgets a key need not say how much, nor who only looks at it.
    pub fn price(self, policy: &Policy, cost: Option<&Cost>) -> Result<Cost, CostError> {
        let unnamed_requests = u64::from(!matches!(self, Self::Debit | Self::Refund));
        let nothing = |_| policy.price(&Cost::default(), 0);
        match (self, cost) {
            (Self::Reset, Some(cost)) => policy.price(cost, unnamed_requests).or_else(nothing),
            (_, Some(cost)) => policy.price(cost, unnamed_requests),
            (Self::Peek | Self::Reset, None) => {
                policy.price(&policy.requests(1), 0).or_else(nothing)
            }
            (_, None) => policy.price(&policy.requests(1), 0),
        }
    }
}

/// The answer to one charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The decision of the policy as a whole.
    pub decision: Decision,
    /// Each limit's own numbers, in policy order.
    pub limits: Vec<LimitDecision>,
    /// Who decided.
    pub source: Source,
}

/// Who decided: the store that holds the state, or what stood in for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The one place where the state lives.
    #[default]
    Authoritative,
    /// Units this node had taken out beforehand.
    Lease,
    /// A refusal that still holds since it was last heard.
    DeniedCache,
    /// This node's share, because the store does not answer.
    Local,
    /// The policy itself, whatever the state: allow or deny while the store does not answer.
    Policy,
}

impl Source {
    /// Everybody there is.
    pub const ALL: [Self; 5] =
        [Self::Authoritative, Self::Lease, Self::DeniedCache, Self::Local, Self::Policy];

    /// Read back from how the protocols spell it.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }

    /// As the protocols spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Authoritative => "authoritative",
            Self::Lease => "lease",
            Self::DeniedCache => "denied-cache",
            Self::Local => "local",
            Self::Policy => "policy",
        }
    }
}

/// Where state lives: in this process, or elsewhere.
///
/// The boundary is data, because a closure cannot cross a network. What a decision means is the
/// same in every store; the conformance suites hold each of them to it.
pub trait Store: Send + Sync {
    /// Adds a policy, or replaces the one of its name; what was spent stays spent.
    fn set_policy(&self, policy: Policy) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Adds a policy that shares its keys with the policy `of` and all its variants, or replaces the one
    /// of its name: what is spent under one of them is spent under the others. For limits that are
    /// overridden for one key or one call, for tiers, for a candidate beside a live policy.
    ///
    /// It has a name of its own, and its limits have the names of those of `of`. A refusal or a peek
    /// changes nothing, under whichever of them. One check cannot charge one key under two of them.
    fn set_variant(
        &self,
        of: &str,
        policy: Policy,
        crossing: Crossing,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        let reason = format!("this store cannot share the keys of `{of}` with `{}`", policy.name());
        _ = crossing;
        async { Err(StoreError::Unfit(reason)) }
    }

    /// Removes a policy, and all its variants if it has some. Keys that were charged under a variant go on
    /// under the policy it was a variant of.
    fn remove_policy(&self, name: &str) -> impl Future<Output = Result<(), StoreError>> + Send {
        let reason = format!("this store cannot remove policy `{name}`");
        async { Err(StoreError::Unfit(reason)) }
    }

    /// Applies one check, atomically over all of its charges. The answers are in their order.
    ///
    /// Charges that name the same policy and key are summed first, and share their answer.
    fn apply(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> impl Future<Output = Result<Vec<Answer>, StoreError>> + Send;

    /// Whether its futures are ready when they are first polled, as those of a store in this process are:
    /// then nobody needs a box to wait for them, or a task.
    fn answers_at_once(&self) -> bool {
        false
    }

    /// Decides about all charges as a check does and, if they are admitted, holds them until they are
    /// settled. The same id with the same charges answers the same reservation and charges nothing; with
    /// other charges it is an error.
    fn reserve(
        &self,
        hold: &Hold<'_>,
    ) -> impl Future<Output = Result<Reserved, StoreError>> + Send {
        _ = hold;
        async { Err(not_here()) }
    }

    /// Settles a reservation, once: what is asked after that answers the same and changes nothing.
    fn settle(
        &self,
        id: &str,
        with: Settlement<'_>,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send {
        _ = (id, with);
        async { Err(not_here()) }
    }
}

/// Why a store has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// No policy of this name was ever set.
    UnknownPolicy(String),
    /// The store cannot run this policy exactly, and would not run it otherwise.
    Unfit(String),
    /// There is no reservation of this id: there never was, or its time is over.
    UnknownReservation(String),
    /// What was asked of a reservation makes no sense.
    BadReservation(String),
    /// The policy does not count what it was asked for.
    BadCost(CostError),
    /// What the store was told at its start makes no sense.
    Settings(String),
    /// The store did not answer, or not with an answer.
    Failed {
        /// What went wrong, for those who count.
        kind: Failure,
        /// What went wrong, for those who read.
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
    /// The breaker is open: nothing was asked.
    Open,
    /// Too many calls wait already: nothing was asked.
    Overloaded,
    /// The server is loading its data.
    Loading,
    /// The server is a replica, or may not write.
    ReadOnly,
    /// The server is out of memory.
    OutOfMemory,
    /// The server does not know us, or does not let us.
    Auth,
    /// The server's version is too old.
    Version,
    /// What is stored under the key is not a record of ours.
    Foreign,
    /// An answer that is none.
    BadReply,
}

impl Failure {
    /// Every kind there is.
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

    /// As a metric's label.
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

    /// A check of what only a reservation can hold.
    #[doc(hidden)]
    #[must_use]
    pub fn reserves_only(policy: &str) -> Self {
        Self::Unfit(format!(
            "`{policy}` has a concurrency limit, which only a reservation can hold; reserve instead of \
             checking"
        ))
    }

    /// One key, charged under two policies that share it.
    #[doc(hidden)]
    #[must_use]
    pub fn two_variants(one: &str, other: &str) -> Self {
        Self::Unfit(format!(
            "one check charges a key under `{one}` and under `{other}`, which share it; charge it under \
             one of them"
        ))
    }

    /// The kind of failure, if it is one of the store's and not of the question.
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

impl std::error::Error for StoreError {}

impl From<CostError> for StoreError {
    fn from(error: CostError) -> Self {
        Self::BadCost(error)
    }
}
