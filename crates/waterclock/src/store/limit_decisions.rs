//! The numbers of each limit, without an allocation for a policy of one limit, which most are.

use std::ops::{Deref, DerefMut};
use std::slice;

use smallvec::SmallVec;
use waterclock_core::LimitDecision;

/// Each limit's own numbers, in policy order. Derefs to a slice; collect it from an iterator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitDecisions(SmallVec<[LimitDecision; 1]>);

impl LimitDecisions {
    /// Those of a policy of one limit.
    #[inline]
    #[must_use]
    pub fn of_one(only: LimitDecision) -> Self {
        Self(SmallVec::from_buf([only]))
    }
}

impl Deref for LimitDecisions {
    type Target = [LimitDecision];

    #[inline]
    fn deref(&self) -> &[LimitDecision] {
        &self.0
    }
}

impl DerefMut for LimitDecisions {
    fn deref_mut(&mut self) -> &mut [LimitDecision] {
        &mut self.0
    }
}

impl FromIterator<LimitDecision> for LimitDecisions {
    fn from_iter<I: IntoIterator<Item = LimitDecision>>(limits: I) -> Self {
        Self(limits.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a LimitDecisions {
    type Item = &'a LimitDecision;
    type IntoIter = slice::Iter<'a, LimitDecision>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
