use waterclock::{Answer, Limit, LimitDecision, Policy};

use super::HeaderStyle;

/// What a client is told about one charge of its check.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// In which words.
    pub style: HeaderStyle,
    /// The name by which clients know the policy.
    pub name: &'a str,
    /// The policy that decided.
    pub policy: &'a Policy,
    /// What it said.
    pub answer: &'a Answer,
}

impl<'a> Told<'a> {
    /// Shadow policies refuse nobody, so nobody hears of them.
    pub(crate) fn is_silent(&self) -> bool {
        self.style == HeaderStyle::None || self.policy.is_shadow()
    }

    pub(super) fn speaks(&self, style: HeaderStyle) -> bool {
        self.style == style && !self.is_silent()
    }

    pub(super) fn is_refused(&self) -> bool {
        self.policy.refuses(&self.answer.decision)
    }

    /// The limits that can refuse, with their numbers, in policy order.
    pub(super) fn limits(&self) -> impl Iterator<Item = (&'a Limit, &'a LimitDecision)> + use<'a> {
        let numbered = self.policy.limits().iter().zip(&self.answer.limits);
        numbered.filter(|(limit, _)| !limit.is_shadow())
    }
}
