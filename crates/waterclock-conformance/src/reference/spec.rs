//! Policies, calls and answers of the reference model, in plain numbers.

/// An algorithm with its numbers. Units are whole, time is nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Drains `limit` units per `per_ns` continuously and holds `capacity`.
    Gcra {
        /// Units drained per period.
        limit: u64,
        /// The period.
        per_ns: u64,
        /// Units a fresh key admits at once.
        capacity: u64,
        /// Admit any cost whenever one unit would pass.
        overdraft: bool,
    },
    /// Drains `drip` units at a time, one drip every `every_ns`.
    LeakyBucket {
        /// Units a fresh key admits at once.
        capacity: u64,
        /// Units per drip.
        drip: u64,
        /// Time between drips.
        every_ns: u64,
        /// Admit any cost whenever one unit would pass.
        overdraft: bool,
    },
    /// Counts within one window at a time.
    FixedWindow {
        /// Units per window.
        limit: u64,
        /// The window's length; unused by [`Align::Calendar`].
        per_ns: u64,
        /// Where windows begin.
        align: Align,
    },
    /// The current epoch-aligned window plus the fading previous one.
    SlidingWindow {
        /// Units per window.
        limit: u64,
        /// The window's length.
        per_ns: u64,
    },
    /// A log of what was admitted in the trailing window.
    RollingWindow {
        /// Units in any trailing window.
        limit: u64,
        /// The window's length.
        per_ns: u64,
        /// Round instants up to a grid of this many steps per window.
        buckets: Option<u64>,
    },
    /// Epoch-aligned windows whose unused share is lost as time passes.
    Quota {
        /// Units per window.
        limit: u64,
        /// The window's length.
        per_ns: u64,
    },
    /// One admission in each even half-slot of `per_ns / (2 · limit)`.
    EvenSlots {
        /// Slots per period.
        limit: u64,
        /// The period.
        per_ns: u64,
    },
    /// No two admissions closer than this.
    MinInterval {
        /// The shortest gap.
        every_ns: u64,
    },
    /// Units held at the same time, by reservations only.
    Concurrency {
        /// Units held at once.
        limit: u64,
        /// For how long each may be held.
        lease_ns: u64,
    },
    /// A circuit breaker: refuses after too many errors.
    ErrorRate {
        /// Hundredths of a percent of errors that open it.
        threshold: u64,
        /// How long a report counts.
        per_ns: u64,
        /// The fewest reports that can open it.
        min_samples: u64,
        /// How long it stays open.
        cool_down_ns: u64,
    },
}

/// Where the windows of [`Algorithm::FixedWindow`] begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Align {
    /// At the first admitted cost above 0.
    First,
    /// At multiples of the period.
    Epoch,
    /// At these sorted instants. Everything before the first is one window; the last window never ends.
    Calendar(Vec<u64>),
}

/// One limit of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSpec {
    /// How it counts.
    pub algorithm: Algorithm,
    /// A minimum interval enforced as well.
    pub min_interval_ns: Option<u64>,
    /// Decide and report, never refuse.
    pub shadow: bool,
}

/// What happens to a cost that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The whole cost or nothing.
    Binary,
    /// As much of the cost as fits.
    Partial,
    /// Every attempt is recorded, refused ones too.
    CountRefusals,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Decide and charge.
    Check,
    /// Decide, charge nothing.
    Peek,
    /// Charge what was used already, into debt if necessary.
    Debit,
    /// Report this many successes.
    ReportOk,
    /// Report this many errors.
    ReportError,
    /// Give units back.
    Refund,
    /// Clear the key.
    Reset,
}

/// Limits that admit together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    /// What happens to a cost that does not fit.
    pub mode: Mode,
    /// Decide and report, never refuse.
    pub shadow: bool,
    /// The limits, in order.
    pub limits: Vec<LimitSpec>,
}

/// A policy's answer to one call.
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
    /// The wait until the key behaves like a fresh one.
    pub reset_after_ns: u64,
    /// The live limits that refused, in order.
    pub refused_by: Vec<usize>,
    /// The limits that would have refused, were they not in shadow, in order.
    pub shadow_refused_by: Vec<usize>,
    /// Count-refusals mode only: the smallest signed `limit − used`.
    pub counter: Option<i64>,
    /// The wait until the same cost is admitted next, after this call; none is never.
    pub next_same_ns: Option<u64>,
    /// Each limit's own numbers.
    pub limits: Vec<LimitAnswer>,
}

/// One limit's numbers, as if it were alone, on the state after the call.
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
