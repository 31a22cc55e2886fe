//! Charges and answers: what a store is asked, and what it returns.

use std::time::Duration;

use waterclock_core::store::{Decide as _, Logs, State, Verdict, View};
use waterclock_core::{
    Cost, CostError, Decision, Factor, LimitDecision, Outcome, Policy, Timestamp,
};

use super::{LimitDecisions, StoreError};
use crate::sync::Arc;

/// One line of a check: this much, for this key, under this policy.
#[derive(Clone, Debug)]
pub struct Charge<'a> {
    /// The name of a policy the store was given.
    pub policy: &'a str,
    /// What shares a budget.
    pub key: &'a [u8],
    /// How much; 0 is a peek. A policy that counts several units takes a number for each.
    pub cost: Cost,
    /// How much stricter the limits are for this charge. All factors of a key share what it has spent.
    pub factor: Option<Factor>,
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
        Self { policy, key, cost: cost.into(), factor: None }
    }

    /// The same under limits that are stricter or looser by a factor: 0.5 doubles them, 0 disables them.
    #[must_use]
    pub fn with_factor(mut self, factor: Option<Factor>) -> Self {
        self.factor = factor.filter(|factor| !factor.is_one());
        self
    }

    /// The same charge with its cost as the policy counts it; for stores.
    pub fn priced(&self, verb: Verb, policy: &Policy) -> Result<Self, StoreError> {
        Ok(Self { cost: verb.price(policy, Some(&self.cost))?, ..self.clone() })
    }
}

/// What a store does with the charges of one call. Every store implements all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verb {
    /// Decide, and charge all of them or none.
    Check,
    /// Decide, charge nothing.
    Peek,
    /// Charge what was used already, whatever there is room for and into debt if need be; then answer as
    /// a peek.
    Debit,
    /// Count how admitted requests ended, as often as the cost says; then answer as a peek. Only error-rate
    /// limits use it.
    Report(Outcome),
    /// Give back; then answer as a peek.
    Refund,
    /// Clear the keys; then answer as a peek.
    Reset,
}

impl Verb {
    /// As protocols spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Peek => "peek",
            Self::Debit => "debit",
            Self::Report(_) => "report",
            Self::Refund => "refund",
            Self::Reset => "reset",
        }
    }

    /// For stores: what it changes in a state before a check or a peek is answered.
    pub fn change(self, policy: &Policy, state: &mut State<'_>, now: Timestamp, cost: &Cost) {
        match self {
            Self::Check | Self::Peek => {}
            Self::Debit => policy.debit(state, now, cost),
            Self::Report(outcome) => policy.report(state, now, outcome, cost),
            Self::Refund => policy.refund(state, now, cost),
            Self::Reset => policy.clear(state),
        }
    }

    /// A cost as a policy counts it. Where none is given it is one request; a peek and a reset need none. A cost
    /// that names units but not these is:
    ///
    /// | verb | `requests` | other units |
    /// |---|---|---|
    /// | check, peek, report, reset | 1 | 0 |
    /// | debit, refund | 0 | 0 |
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
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The decision of the policy as a whole.
    pub decision: Decision,
    /// Each limit's own numbers, in policy order.
    pub limits: LimitDecisions,
    /// What decided.
    pub source: Source,
    /// The limits that decided, if they are not those of the policy that the charge names.
    pub applied: Option<Applied>,
    /// Of a decision that allows.
    next_same: Option<Duration>,
}

/// Limits that decided instead of those of the policy that a charge names: by the charge's factor, or by an
/// [`Override`](super::Override) of its key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Applied {
    /// The policy with these limits, under its own name.
    pub policy: Arc<Policy>,
    /// Whether an override of the key says so. Neither a rollout nor a policy in shadow concerns such a key.
    pub is_override: bool,
}

impl Applied {
    /// These limits.
    #[must_use]
    pub fn new(policy: Arc<Policy>, is_override: bool) -> Self {
        Self { policy, is_override }
    }
}

impl Answer {
    /// The answer of the store that holds the state. The same cost passes again at once, unless
    /// [`with_next_same`](Self::with_next_same) says otherwise.
    #[must_use]
    pub fn new(decision: Decision, limits: LimitDecisions) -> Self {
        let (source, next_same) = (Source::Authoritative, Some(Duration::ZERO));
        Self { decision, limits, source, applied: None, next_same }
    }

    /// The same by these limits.
    #[must_use]
    pub fn with_applied(self, applied: Option<Applied>) -> Self {
        Self { applied, ..self }
    }

    /// For stores: everything there is to say about a verdict, from the state after it was recorded.
    #[must_use]
    pub fn of(
        policy: &Policy,
        view: View<'_>,
        now: Timestamp,
        cost: &Cost,
        verdict: Verdict,
    ) -> Self {
        let decision = policy.answer(view, now, cost, verdict);
        let limits = policy.each(view, now, cost, verdict).collect();
        // A refusal has its wait already.
        let same = match decision.is_allowed() {
            true => policy.next_same(view, now, cost),
            false => None,
        };
        Self::new(decision, limits).with_next_same(same)
    }

    /// For stores: the same for a policy of one limit whose state is [one word](super::Decide::one_word), from the decision and the
    /// state after it.
    #[inline]
    #[must_use]
    pub fn of_one_word(
        policy: &Policy,
        view: View<'_>,
        now: Timestamp,
        cost: u64,
        decision: Decision,
    ) -> Self {
        let limit = LimitDecision {
            allowed: decision.is_allowed(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after: decision.retry_after(),
            next_unit: decision.next_unit(),
            reset_after: decision.reset_after(),
        };
        let answer = Self::new(decision, LimitDecisions::of_one(limit));
        // A bucket admits what is left of it. Only what it does not admit takes a search.
        if limit.allowed && limit.remaining.is_some_and(|left| left < cost) {
            return answer.with_next_same(policy.next_same(view, now, &cost.into()));
        }
        answer
    }

    /// How long until the same cost passes next if nothing else happens, counted from this decision: zero if it would
    /// pass again at once, `None` if it never will. Of a refusal, its `retry_after`.
    #[must_use]
    pub fn next_same(&self) -> Option<Duration> {
        if self.decision.is_allowed() { self.next_same } else { self.decision.retry_after() }
    }

    /// The same with another wait after an admission.
    #[must_use]
    pub fn with_next_same(self, next_same: Option<Duration>) -> Self {
        Self { next_same, ..self }
    }

    /// The same answer in shadow: allowed, now and next time.
    #[must_use]
    pub fn in_shadow(self, cost: &Cost) -> Self {
        let decision = self.decision.in_shadow(cost);
        Self { decision, next_same: Some(Duration::ZERO), ..self }
    }

    /// The same from this source.
    #[must_use]
    pub fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
    }

    /// Refused whatever the state is; waiting does not help.
    #[must_use]
    pub fn blocked(policy: &Policy, cost: &Cost) -> Self {
        let mut answer = Self::fresh(policy, cost);
        answer.decision = answer.decision.blocked();
        // A positive number would promise what a blocked key never gets.
        answer.limits.iter_mut().for_each(|limit| limit.remaining = Some(0));
        answer
    }

    /// Allowed whatever the state is, with the numbers of a fresh key.
    #[must_use]
    pub fn exempt(policy: &Policy, cost: &Cost) -> Self {
        Self::fresh(&policy.clone().with_shadow(true), cost)
    }

    /// What a policy answers to a key that has spent nothing.
    pub(crate) fn fresh(policy: &Policy, cost: &Cost) -> Self {
        let (words, logs) = (vec![0; policy.words()], Logs::new());
        let (view, now) = (View::new(&words, &logs), Timestamp::ZERO);
        let verdict = policy.judge(view, now, cost);
        Self::of(policy, view, now, cost, verdict).with_source(Source::Policy)
    }
}

/// Two answers are the same if they say the same.
impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        let said = |a: &Self| (a.decision, a.source, a.next_same());
        said(self) == said(other) && self.limits == other.limits && self.applied == other.applied
    }
}

/// What decided: the store that holds the state, or a substitute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The one place where the state lives.
    #[default]
    Authoritative,
    /// Units that this node had leased from the store.
    Lease,
    /// A refusal that this node remembers and that still holds.
    DeniedCache,
    /// This node's share, because the store does not answer.
    Local,
    /// The policy itself, whatever the state: allow or deny while the store does not answer.
    Policy,
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 5] =
        [Self::Authoritative, Self::Lease, Self::DeniedCache, Self::Local, Self::Policy];

    /// The source of this [name](Source::name).
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
