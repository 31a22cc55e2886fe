//! What applies to a key, and the answer where that takes no store.

use std::sync::Arc;

use waterclock_core::{Cost, Factor, Policy};

use crate::store::Answer;

/// What applies to a key.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Resolution<'a> {
    /// The policy that decides, or whose numbers are reported where no decision is needed.
    pub policy: &'a Arc<Policy>,
    /// What happens.
    pub action: Action,
    /// Why.
    pub origin: Origin,
    /// By which factor the policy's limits are scaled, if not 1.
    pub factor: Option<Factor>,
}

/// What happens to the requests of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Refuse without asking the store; waiting does not help.
    Block,
    /// Admit without asking the store.
    Exempt,
    /// Admit without asking the store, because the key's tier has no limits.
    Unlimited,
    /// Let the policy decide.
    Enforce,
    /// Let the policy decide and charge, but admit in any case: the key is not enrolled.
    Shadow,
}

/// Where a [`Resolution`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The policy itself.
    Policy,
    /// The tier of the request.
    Tier,
    /// Numbers that came with the call. [`Resolution::policy`] is the one to apply them to.
    Call,
    /// A list or an override that names this key.
    Key,
}

impl Resolution<'_> {
    /// Whether the policy applies with its own limits, as it does to most keys.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        self.origin == Origin::Policy && self.factor.is_none()
    }

    /// The answer, where it takes no store: to blocked, exempt and unlimited keys.
    #[must_use]
    pub fn answer(&self, cost: &Cost) -> Option<Answer> {
        match self.action {
            Action::Block => Some(Answer::blocked(self.policy, cost)),
            Action::Exempt => Some(Answer::exempt(self.policy, cost)),
            Action::Unlimited => Some(Answer::fresh(self.policy, cost)),
            Action::Enforce | Action::Shadow => None,
        }
    }

    /// The store's answer as reported to the caller: the same, or in shadow.
    #[must_use]
    pub fn report(&self, answer: Answer, cost: &Cost) -> Answer {
        if self.action == Action::Shadow { answer.in_shadow(cost) } else { answer }
    }
}
