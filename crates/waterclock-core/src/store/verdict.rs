//! The result of judging a cost, before anything is recorded.

use crate::{Cost, Limit, LimitSet, Mode, Policy};

/// What the limits of a policy make of a cost, before anything is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    pub(super) admits: bool,
    pub(super) grants: u64,
    /// The limits that do not admit the whole cost.
    pub(super) unfit: LimitSet,
    pub(super) shadow_refused: LimitSet,
}

impl Verdict {
    /// Whether the whole cost is admitted.
    #[must_use]
    pub fn admits(&self) -> bool {
        self.admits
    }

    /// How much is granted; with [`Mode::CountRefusals`], recorded. Of several units, the largest number.
    #[must_use]
    pub fn grants(&self) -> u64 {
        self.grants
    }

    /// Whether a reservation would hold something by it: all of it, or what fits with [`Mode::Partial`].
    #[must_use]
    pub fn holds(&self, policy: &Policy) -> bool {
        let holds_part = policy.mode() == Mode::Partial && self.grants > 0;
        self.admits || holds_part || policy.is_shadow()
    }

    /// The verdict on a reservation that was admitted before and holds so many units.
    #[must_use]
    pub fn of_reservation(units: u64) -> Self {
        let none = LimitSet::default();
        Self { admits: true, grants: units, unfit: none, shadow_refused: none }
    }

    /// Refused, whatever the limits say.
    #[must_use]
    pub fn refused() -> Self {
        let none = LimitSet::default();
        Self { admits: false, grants: 0, unfit: none, shadow_refused: none }
    }

    /// The same verdict for a charge given up because another charge of its check was refused.
    /// [`Mode::CountRefusals`] records it all the same.
    #[must_use]
    pub fn withheld(mut self, policy: &Policy) -> Self {
        self.admits = false;
        if policy.mode() != Mode::CountRefusals {
            self.grants = 0;
        }
        self
    }

    /// Whether recording it changes anything.
    #[must_use]
    #[inline]
    pub fn writes(&self, policy: &Policy, cost: &Cost) -> bool {
        !cost.is_zero()
            && policy.state_words() > 0
            && (self.grants > 0 || policy.limits().iter().any(Limit::is_shadow))
    }
}
