//! The answer, for a policy and for each of its limits.

/// What a policy says to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The whole cost was admitted now.
    pub allowed: bool,
    /// How much was admitted.
    pub granted: u64,
    /// The largest cost a fresh key could ever admit at once; none is unbounded.
    pub limit: Option<u64>,
    /// The largest cost that would be admitted now, after this call; none is unbounded.
    pub remaining: Option<u64>,
    /// The wait for this cost; none is never.
    pub retry_after_ns: Option<u64>,
    /// The wait for one unit more than `remaining`; none when full or unbounded.
    pub next_unit_ns: Option<u64>,
    /// The wait until the key cannot be told from a fresh one.
    pub reset_after_ns: u64,
    /// The live limits that refused, in order.
    pub refused_by: Vec<usize>,
    /// The limits that would have refused, were they not in shadow, in order.
    pub shadow_refused_by: Vec<usize>,
    /// Uniform only: the smallest signed `limit − used`.
    pub counter: Option<i64>,
    /// Each limit's own numbers.
    pub limits: Vec<LimitAnswer>,
}

/// What one limit says, as if it stood alone, on the state after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitAnswer {
    /// This limit admitted the whole cost, judged before anything was charged.
    pub allowed: bool,
    /// As in [`Answer`].
    pub limit: Option<u64>,
    /// As in [`Answer`].
    pub remaining: Option<u64>,
    /// As in [`Answer`].
    pub retry_after_ns: Option<u64>,
    /// As in [`Answer`].
    pub next_unit_ns: Option<u64>,
    /// As in [`Answer`].
    pub reset_after_ns: u64,
}
