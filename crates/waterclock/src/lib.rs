//! [which]: crate::guide::which_algorithm
//! [waiting]: crate::guide::waiting
//! [memory]: crate::guide::memory
//!
#![doc = include_str!("../docs/guide.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "calendar")]
pub mod calendar;
mod clock;
pub mod fallback;
pub mod guide {
    //! The chapters of the guide.

    /// [which]: crate::guide::which_algorithm
    /// [waiting]: crate::guide::waiting
    /// [memory]: crate::guide::memory
    ///
    #[doc = include_str!("../docs/which-algorithm.md")]
    pub mod which_algorithm {}

    /// [which]: crate::guide::which_algorithm
    /// [waiting]: crate::guide::waiting
    /// [memory]: crate::guide::memory
    ///
    #[doc = include_str!("../docs/waiting.md")]
    pub mod waiting {}

    /// [which]: crate::guide::which_algorithm
    /// [waiting]: crate::guide::waiting
    /// [memory]: crate::guide::memory
    ///
    #[doc = include_str!("../docs/memory.md")]
    pub mod memory {}
}
mod header_style;
#[cfg(all(test, shuttle))]
mod interleavings;
mod jitter;
mod keyed;
mod limiter;
mod memory;
mod places;
mod pool;
mod reservation;
mod scope;
pub mod store;
mod sync;
mod table;
mod wait;

#[cfg(feature = "simulation")]
#[doc(hidden)]
pub use clock::SimulatedTime;
pub use clock::{CachedClock, Clock, ManualClock, MonotonicClock, TscClock};
pub use fallback::{Fallback, FallbackBuilder, Lease, OnStoreError, Serving};
pub use header_style::HeaderStyle;
pub use jitter::Jitter;
pub use keyed::{KeyedLimiter, KeyedLimiterBuilder};
pub use limiter::Limiter;
pub use memory::{MemoryStore, PolicyHandle, RestoreError, Restored, Saved};
pub use places::{KeyUsage, OnFull};
pub use reservation::Reservation;
pub use scope::{Action, Origin, Resolution, Scope, Subject, UnknownTier};
pub use store::{
    Answer, Applied, BadReservation, Charge, Detail, DynStore, Failure, Hold, KeptChange,
    KeptChanges, KeyOverride, MAX_RESERVATION_ID, MAX_RESERVATION_TTL, MIN_RESERVATION_TTL,
    Migration, OnExpiry, Override, OverridePage, Reserved, Settled, Settlement, Source, Store,
    StoreError, Unfit, Verb,
};
pub use wait::{Wait, WaitError};
pub use waterclock_core::{
    Algorithm, Align, Calendar, CalendarUnit, Concurrency, Cost, CostError, Decimal, DecimalError,
    Decision, DecisionParts, ErrorRate, EvenSlots, Factor, FactorError, FixedWindow, Gcra,
    LeakyBucket, LegacyBucket, LegacyLimit, Limit, LimitDecision, LimitError, LimitSet, MAX_LIMITS,
    MAX_LOG, MAX_PERIOD, MAX_UNITS, MinInterval, Mode, Outcome, Policy, PolicyError, Quota,
    RollingWindow, Rollout, Share, SlidingWindow, Timestamp,
};

/// Tests the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
