//! The rules that apply to a request.

use std::sync::Arc;

use http::request::Parts;
use waterclock::{Action, Answer, Charge, Factor, Policy, UnknownTier};

use crate::key::{FoundKey, KeyBytes, KeyError};
use crate::refusal::Reason;
use crate::rule::Rule;

/// A rule that applies to a request, and what it says about the request's key.
pub(crate) struct Match<'r> {
    pub(crate) rule: &'r Rule,
    pub(crate) policy: &'r Arc<Policy>,
    pub(crate) key: KeyBytes<'r>,
    pub(crate) cost: u64,
    pub(crate) action: Action,
    /// By which the policy's limits are scaled.
    pub(crate) factor: Option<Factor>,
    /// The answer, where it takes no store.
    pub(crate) fixed: Option<Box<Answer>>,
}

impl Match<'_> {
    #[inline]
    pub(super) fn charge(&self) -> Charge<'_> {
        Charge::new(self.policy.name(), &self.key, self.cost).with_factor(self.factor)
    }

    /// Whether its units are reserved until the response has ended.
    pub(super) fn reserves(&self) -> bool {
        self.rule.settle.is_some() || self.policy.reserves_only()
    }
}

/// All that apply, in the order of the rules. Most requests match one, which needs no list.
#[derive(Default)]
pub(super) struct Matches<'r> {
    first: Option<Match<'r>>,
    others: Vec<Match<'r>>,
}

impl<'r> Matches<'r> {
    /// Adds a rule and the key that was found for it. Rules in shadow pass over requests that they cannot decide about.
    #[inline]
    pub(super) fn add(
        &mut self,
        rule: &'r Rule,
        key: Result<FoundKey<'r>, KeyError>,
        parts: &Parts,
    ) -> Result<(), Undecided> {
        let found = match key {
            Ok(key) => rule.resolve(key, parts).map_err(Undecided::Tier),
            Err(error) => Err(Undecided::Key(error)),
        };
        match found {
            Ok(found) if self.first.is_none() => self.first = Some(found),
            Ok(found) => self.others.push(found),
            Err(_) if rule.is_trial() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The only match, if the store decides about it once and for all: nothing is due when the response has ended.
    #[inline]
    pub(super) fn only_plain(&self) -> Option<&Match<'r>> {
        let only = self.first.as_ref().filter(|_| self.others.is_empty())?;
        let is_plain = only.action == Action::Enforce && !only.reserves();
        (is_plain && !only.policy.takes_reports()).then_some(only)
    }

    /// Those that are enforced, and the others.
    pub(super) fn split(self) -> (Vec<Match<'r>>, Vec<Match<'r>>) {
        let all = self.first.into_iter().chain(self.others);
        all.partition(|found| found.action == Action::Enforce)
    }
}

/// Why there is no decision about a request.
pub(super) enum Undecided {
    Key(KeyError),
    Tier(UnknownTier),
}

impl Undecided {
    pub(super) fn reason(&self) -> Reason<'_> {
        match self {
            Self::Key(error) => Reason::Key(error),
            Self::Tier(error) => Reason::Tier(error),
        }
    }
}
