//! Exact rate limiting. Placeholder for the guide.

mod budget;
#[cfg(feature = "calendar")]
pub mod calendar;
mod clock;
mod keyed;
mod limiter;
mod sync;
mod table;

#[cfg(feature = "tsc")]
pub use clock::TscClock;
pub use clock::{CachedClock, Clock, ManualClock, MonotonicClock};
pub use keyed::{KeyedLimiter, KeyedLimiterBuilder};
pub use limiter::Limiter;
pub use tollgate_core::{
    Algorithm, Align, Calendar, Decision, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit,
    LimitDecision, LimitError, LimitSet, MAX_LIMITS, MAX_LOG, MAX_PERIOD, MAX_UNITS, MinInterval,
    Mode, Policy, PolicyError, Quota, RollingWindow, SlidingWindow, Timestamp,
};
