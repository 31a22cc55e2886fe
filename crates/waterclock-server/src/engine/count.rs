//! What is counted of decisions, and who was refused.

use super::served::Served;
use super::{Engine, Outcome};
use crate::observe::{Face, Refused, Tally, Totals};

/// One policy, as it is counted.
pub(crate) struct PolicyCount {
    pub(crate) name: String,
    pub(crate) totals: Totals,
    pub(crate) keys: usize,
    pub(crate) reservations: usize,
    /// Each limit with the most that a fresh key can admit at once, if there is such a number.
    pub(crate) limits: Vec<(String, Option<u64>)>,
}

impl Engine {
    /// Counts a decision about a key.
    #[inline]
    pub(super) fn count(&self, face: Face, served: &Served, key: &[u8], outcome: Outcome) {
        self.count_as(face, (served.name(), served.tally()), key, outcome);
    }

    /// The same under a name that no file has.
    #[inline]
    pub(super) fn count_as(
        &self,
        face: Face,
        (name, tally): (&str, &Tally),
        key: &[u8],
        outcome: Outcome,
    ) {
        tally.count(face, outcome);
        if matches!(outcome, Outcome::Deny | Outcome::ShadowDeny) {
            self.refused.note(name, key);
        }
    }

    /// Who was refused most in the last minutes.
    pub(crate) fn refused(&self) -> &Refused {
        &self.refused
    }

    /// Every policy in force, in the order of their names; and what callers made up, if anybody did.
    pub(crate) fn policy_counts(&self) -> Vec<PolicyCount> {
        let plan = self.plan();
        let held = self.place.reservations();
        let count = |name: &str, totals, limits| PolicyCount {
            name: name.to_owned(),
            totals,
            keys: self.place.keys_of(name),
            reservations: held.get(name).copied().unwrap_or_default(),
            limits,
        };
        let of_served = |served: &std::sync::Arc<Served>| {
            let limits = served.policy();
            let limits = limits.limits().iter();
            let limits = limits.map(|limit| (limit.name().to_owned(), limit.max_cost()));
            count(served.name(), served.tally().totals(), limits.collect())
        };
        let mut counts: Vec<PolicyCount> = plan.policies().map(of_served).collect();
        let (family, totals) = self.throttle.totals();
        if !totals.is_zero() {
            counts.push(count(family, totals, Vec::new()));
        }
        counts.sort_by(|a, b| a.name.cmp(&b.name));
        counts
    }
}
