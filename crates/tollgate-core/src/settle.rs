//! Units that are held first and settled later: what a reservation needs to remember.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::{Decision, Limit, Policy, State, Timestamp, Verdict};

/// What was charged to each limit of a policy for one reservation, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    at: Timestamp,
    /// None for a shadow limit that did not admit it: whatever becomes of it, that limit said no.
    parts: Box<[Option<u64>]>,
}

impl Held {
    /// When it was charged.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Whether settling so much changes nothing.
    #[must_use]
    pub fn is_just(&self, used: u64) -> bool {
        self.parts.iter().flatten().all(|units| *units == used)
    }

    /// Whether some limit holds less than so much, and will have to be debited.
    #[must_use]
    pub fn is_less_than(&self, used: u64) -> bool {
        self.parts.iter().flatten().any(|units| *units < used)
    }

    /// The same without what would be given back if so much were used.
    #[must_use]
    pub fn at_most(&self, used: u64) -> Self {
        let parts = self.parts.iter().map(|part| part.map(|units| units.min(used)));
        Self { at: self.at, parts: parts.collect() }
    }

    /// The same under the policy that has taken the place of `old`: a limit with the same name and
    /// algorithm goes on holding it, others hold nothing.
    #[must_use]
    pub fn carried(&self, old: &Policy, new: &Policy) -> Self {
        let carry = |limit: &Limit| {
            let kept = old.limits().iter().position(|before| before.keeps_state_of(limit))?;
            *self.parts.get(kept)?
        };
        Self { at: self.at, parts: new.limits().iter().map(carry).collect() }
    }
}

impl Policy {
    /// Charges what the verdict grants, as `record` does, and tells what that was, so that it can be
    /// settled.
    pub fn hold(&self, state: &mut State<'_>, now: Timestamp, cost: u64, verdict: Verdict) -> Held {
        let at = now.as_nanos();
        let mut parts = Vec::with_capacity(self.limits().len());
        for (start, limit) in self.parts() {
            let part = state.part(start, limit.words());
            let units = self.units(limit, part.view(), at, cost, verdict);
            limit.charge(part, at, units);
            parts.push((units > 0 || cost == 0).then_some(units));
        }
        Held { at: now, parts: parts.into() }
    }

    /// A check that can be settled, if something is held.
    pub fn reserve(
        &self,
        state: &mut State<'_>,
        now: Timestamp,
        cost: u64,
    ) -> (Decision, Option<Held>) {
        let verdict = self.judge(state.view(), now, cost);
        let held = self.hold(state, now, cost, verdict);
        let decision = self.answer(state.view(), now, cost, verdict);
        (decision, verdict.holds(self).then_some(held))
    }

    /// Makes what was held what was used: gives the rest back, or debits what is missing.
    ///
    /// Only what still counts is given back: into the window that it was charged in, and from the debt that
    /// a bucket has now, however much of it time has paid off and others have made since.
    /// Limits that count events stay as they are: the event took place.
    pub fn settle(&self, state: &mut State<'_>, now: Timestamp, held: &Held, actual: u64) {
        for ((start, limit), part) in self.parts().zip(&held.parts) {
            let Some(units) = *part else { continue };
            let state = state.part(start, limit.words());
            if actual > units {
                limit.debit(state, now.as_nanos(), actual - units);
            } else if actual < units {
                limit.give_back(state, held.at.as_nanos(), now.as_nanos(), units - actual);
            }
        }
    }
}
