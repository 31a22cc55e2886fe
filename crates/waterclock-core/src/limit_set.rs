/// A set of a policy's limits, by their position in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitSet(u16);

impl LimitSet {
    #[inline]
    pub(crate) fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    pub(crate) fn extend(&mut self, others: Self) {
        self.0 |= others.0;
    }

    pub(crate) fn contains(self, index: usize) -> bool {
        self.0 & (1 << index) != 0
    }

    /// Whether no limit is in it.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The positions, in policy order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..16).filter(move |&i| self.contains(i))
    }
}
