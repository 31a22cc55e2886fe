//! The counters of one policy, found once and then only counted up.

use prometheus_client::metrics::counter::Counter;
use serde::Serialize;

use super::Face;
use crate::engine::Outcome;

/// Decisions so far, of all faces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    allow: u64,
    deny: u64,
    shadow_deny: u64,
    error: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, other: Totals) {
        self.allow += other.allow;
        self.deny += other.deny;
        self.shadow_deny += other.shadow_deny;
        self.error += other.error;
    }

    pub(crate) fn is_zero(&self) -> bool {
        *self == Totals::default()
    }
}

/// `waterclock_decisions_total` of one policy, by face and outcome.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    counters: [[Counter; 4]; 3],
}

impl Tally {
    pub(super) fn new(counter: impl Fn(Face, &'static str) -> Counter) -> Tally {
        let of_face =
            |face| ["allow", "deny", "shadow_deny", "error"].map(|outcome| counter(face, outcome));
        Tally { counters: Face::ALL.map(of_face) }
    }

    #[inline]
    pub(crate) fn count(&self, face: Face, outcome: Outcome) {
        self.count_many(face, outcome, 1);
    }

    #[inline]
    pub(crate) fn count_many(&self, face: Face, outcome: Outcome, many: u64) {
        let outcome = match outcome {
            Outcome::Allow => 0,
            Outcome::Deny => 1,
            Outcome::ShadowDeny => 2,
            Outcome::Error => 3,
        };
        self.counters[face as usize][outcome].inc_by(many);
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for [allow, deny, shadow_deny, error] in &self.counters {
            totals.add(Totals {
                allow: allow.get(),
                deny: deny.get(),
                shadow_deny: shadow_deny.get(),
                error: error.get(),
            });
        }
        totals
    }
}
