//! Where time comes from. The only module that reads the system's clock.
#![allow(clippy::disallowed_methods, reason = "this is the one place that may")]

mod counter;
mod guard;
#[cfg(feature = "simulation")]
mod simulated;
mod tsc;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[cfg(feature = "simulation")]
pub use simulated::SimulatedTime;
pub use tsc::TscClock;
use waterclock_core::Timestamp;

/// A source of time, in nanoseconds since the Unix epoch.
///
/// It should not go back. Where it does all the same, limiters take the latest instant they have
/// seen of a key: a step back can delay, and grants nothing of it. A check of several keys takes the
/// latest instant of all of them; time passes at once for a key that was last seen after the step.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The system's monotonic clock, set once to the wall clock when it was made.
///
/// Later steps of the wall clock do not reach it.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    origin: Instant,
    origin_ns: u64,
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self { origin: Instant::now(), origin_ns: unix_nanos() }
    }
}

/// The wall clock.
fn unix_nanos() -> u64 {
    nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Timestamp {
        #[cfg(feature = "simulation")]
        if let Some(now) = SimulatedTime::now() {
            return now;
        }
        Timestamp::from_nanos(self.origin_ns.saturating_add(nanos(self.origin.elapsed())))
    }
}

#[inline]
fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into())
}

/// A clock that moves only by `advance` and `set`: for tests and for replaying traces. Clones share
/// their time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Sets the time.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_nanos(), Ordering::Release);
    }

    /// Moves the time on.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().after(by));
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::Acquire))
    }
}

/// A clock read from memory, as fresh as its last [`CachedClock::refresh`].
///
/// For event loops that know when time has passed: one real read per turn instead of per decision.
/// Clones share their time.
#[derive(Clone, Debug)]
pub struct CachedClock {
    source: MonotonicClock,
    cached: ManualClock,
}

impl Default for CachedClock {
    fn default() -> Self {
        let (source, cached) = (MonotonicClock::default(), ManualClock::default());
        cached.set(source.now());
        Self { source, cached }
    }
}

impl CachedClock {
    /// Reads the real clock.
    pub fn refresh(&self) {
        self.cached.set(self.source.now());
    }
}

impl Clock for CachedClock {
    #[inline]
    fn now(&self) -> Timestamp {
        self.cached.now()
    }
}
