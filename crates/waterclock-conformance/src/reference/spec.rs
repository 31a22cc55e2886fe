//! The question: what a policy is made of, in plain numbers.

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
    /// So many held at once, by reservations only.
    Concurrency {
        /// Units held at once.
        limit: u64,
        /// For how long each may be held.
        lease_ns: u64,
    },
    /// Closed while too many reports are errors.
    ErrorRate {
        /// Hundredths of a percent of errors that open it.
        threshold: u64,
        /// How long a report counts.
        per_ns: u64,
        /// How many there must be.
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
    /// At these sorted instants. What lies before the first is one window, what lies after the
    /// last is one that never ends.
    Calendar(Vec<u64>),
}

/// One limit of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSpec {
    /// How it counts.
    pub algorithm: Algorithm,
    /// A gap enforced besides.
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

/// What is done to the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Decide and charge.
    Check,
    /// Decide, charge nothing.
    Peek,
    /// Charge what was used already, into debt if need be.
    Debit,
    /// So many ended well.
    ReportOk,
    /// So many ended badly.
    ReportError,
    /// Give units back.
    Refund,
    /// Forget the key.
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
