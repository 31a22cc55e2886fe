//! Units that are held first and settled later: what a reservation needs to remember.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Decide as _, State, Verdict};
use crate::{Cost, Decision, Limit, Policy, Timestamp};

/// What was charged to each limit of a policy for one reservation, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedUnits {
    at: Timestamp,
    /// `None` for a shadow limit that did not admit it: it is not settled there.
    parts: Box<[Option<Part>]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    units: u64,
    /// Until when they count, where that ends by itself: by this a lease is found again.
    ends: u64,
}

impl ReservedUnits {
    /// What another place remembers of it: of each limit the units, and until when they count where that
    /// ends by itself.
    #[must_use]
    pub fn new(
        at: Timestamp,
        parts: impl IntoIterator<Item = Option<(u64, Option<Timestamp>)>>,
    ) -> Self {
        let part = |(units, ends): (u64, Option<Timestamp>)| Part {
            units,
            ends: ends.map_or(0, Timestamp::as_nanos),
        };
        Self { at, parts: parts.into_iter().map(|held| held.map(part)).collect() }
    }

    /// The reverse of [`ReservedUnits::new`].
    pub fn parts(&self) -> impl Iterator<Item = Option<(u64, Option<Timestamp>)>> + '_ {
        let ends = |part: Part| (part.ends > 0).then(|| Timestamp::from_nanos(part.ends));
        self.parts.iter().map(move |held| held.map(|part| (part.units, ends(part))))
    }

    /// When it was charged.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Whether settling so much changes nothing.
    #[must_use]
    pub fn is_exactly(&self, policy: &Policy, used: &Cost) -> bool {
        self.of_limits(policy, used).all(|(part, used)| part.units == used && part.ends == 0)
    }

    /// Whether some limit holds less than so much, and will have to be debited.
    #[must_use]
    pub fn is_less_than(&self, policy: &Policy, used: &Cost) -> bool {
        self.of_limits(policy, used).any(|(part, used)| part.units < used && part.ends == 0)
    }

    /// The same without what would be given back if so much were used.
    #[must_use]
    pub fn at_most(&self, policy: &Policy, used: &Cost) -> Self {
        let cut = |(limit, part): (&Limit, &Option<Part>)| {
            part.map(|part| Part { units: part.units.min(used.of(limit.unit())), ..part })
        };
        Self { at: self.at, parts: policy.limits().iter().zip(&self.parts).map(cut).collect() }
    }

    /// What the limits hold, and what of it was used.
    fn of_limits(&self, policy: &Policy, used: &Cost) -> impl Iterator<Item = (Part, u64)> {
        let limits = policy.limits().iter().zip(&self.parts);
        limits.filter_map(|(limit, part)| Some(((*part)?, used.of(limit.unit()))))
    }

    /// Whether it holds something of a limit of what is held at once.
    #[must_use]
    pub fn has_lease(&self) -> bool {
        self.parts.iter().flatten().any(|part| part.ends > 0)
    }

    /// The same under the policy that has taken the place of `old`: a limit with the same name and
    /// algorithm goes on holding it, others hold nothing.
    #[must_use]
    pub fn migrated(&self, old: &Policy, new: &Policy) -> Self {
        let counts_several = old.counts_several() || new.counts_several();
        let carry = |limit: &Limit| {
            let kept = old.limits().iter().position(|before| before.keeps_state_of(limit))?;
            // Units of another kind are not part of what will be committed.
            let is_same = !counts_several || old.limits()[kept].unit() == limit.unit();
            *self.parts.get(kept).filter(|_| is_same)?
        };
        Self { at: self.at, parts: new.limits().iter().map(carry).collect() }
    }
}

/// Holding units now and settling later what was used.
pub trait Reserve: super::Sealed {
    /// Charges what the verdict grants, as `record` does, and tells what that was, so that it can be
    /// settled. Leases end by then at the latest.
    fn hold(
        &self,
        state: &mut State<'_>,
        now: Timestamp,
        cost: &Cost,
        verdict: Verdict,
        until: Timestamp,
    ) -> ReservedUnits;

    /// A check that can be settled, if something is held.
    fn reserve(
        &self,
        state: &mut State<'_>,
        now: Timestamp,
        cost: &Cost,
    ) -> (Decision, Option<ReservedUnits>);

    /// Makes what was held what was used: gives the rest back, or debits what is missing.
    ///
    /// Only what still counts is given back: into the window that it was charged in, and from the debt that
    /// a bucket has now, however much of it time has paid off and others have made since.
    /// Limits that count events stay as they are: the event took place. What is held at once is held no
    /// more, whatever was used.
    fn settle(&self, state: &mut State<'_>, now: Timestamp, held: &ReservedUnits, used: &Cost);

    /// Frees the units of concurrency limits and leaves the rest charged: what was used is not known.
    fn release(&self, state: &mut State<'_>, now: Timestamp, held: &ReservedUnits);
}

impl Reserve for Policy {
    fn hold(
        &self,
        state: &mut State<'_>,
        now: Timestamp,
        cost: &Cost,
        verdict: Verdict,
        until: Timestamp,
    ) -> ReservedUnits {
        let at = now.as_nanos();
        let mut parts = Vec::with_capacity(self.limits().len());
        for (start, limit) in self.parts() {
            let part = state.part(start, limit.words());
            let units = self.charged(limit, part.view(), at, cost, verdict);
            let ends = limit.hold(part, at, units, until.as_nanos());
            let is_held = units > 0 || cost.of(limit.unit()) == 0;
            parts.push(is_held.then_some(Part { units, ends }));
        }
        ReservedUnits { at: now, parts: parts.into() }
    }

    fn reserve(
        &self,
        state: &mut State<'_>,
        now: Timestamp,
        cost: &Cost,
    ) -> (Decision, Option<ReservedUnits>) {
        let verdict = self.judge(state.view(), now, cost);
        let held = self.hold(state, now, cost, verdict, Timestamp::MAX);
        let decision = self.answer(state.view(), now, cost, verdict);
        (decision, verdict.holds(self).then_some(held))
    }

    fn settle(&self, state: &mut State<'_>, now: Timestamp, held: &ReservedUnits, used: &Cost) {
        for ((start, limit), part) in self.parts().zip(&held.parts) {
            let Some(Part { units, ends }) = *part else { continue };
            let mut state = state.part(start, limit.words());
            if limit.free(state.reborrow(), now.as_nanos(), units, ends) {
                continue;
            }
            let used = used.of(limit.unit());
            if used > units {
                limit.debit(state, now.as_nanos(), used - units);
            } else if used < units {
                limit.give_back(state, held.at.as_nanos(), now.as_nanos(), units - used);
            }
        }
    }

    fn release(&self, state: &mut State<'_>, now: Timestamp, held: &ReservedUnits) {
        for ((start, limit), part) in self.parts().zip(&held.parts) {
            if let Some(Part { units, ends }) = *part {
                limit.free(state.part(start, limit.words()), now.as_nanos(), units, ends);
            }
        }
    }
}
