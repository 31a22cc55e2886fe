//! Where time comes from. The only file that reads the system's clock.
#![allow(clippy::disallowed_methods, reason = "this is the one place that may")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use waterclock_core::Timestamp;

/// A source of time, in nanoseconds since the Unix epoch.
///
/// It should not go back. Where it does all the same, limiters take the latest instant they have
/// seen: a step back can delay, never grant.
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
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { origin: Instant::now(), origin_ns: nanos(unix) }
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Timestamp {
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

#[cfg(feature = "tsc")]
pub use tsc::TscClock;

#[cfg(feature = "tsc")]
mod tsc {
    use super::{AtomicU64, Clock, MonotonicClock, Ordering, Timestamp};

    /// How far the counter may run before it is set again by the system's clock. At 100 ppm of
    /// error that is 1 µs of drift.
    const TRUSTED_NS: u64 = 10_000_000;

    /// A clock that reads the processor's time stamp counter: less than half the price of
    /// [`MonotonicClock`], and set by it every 10 ms.
    ///
    /// Where the kernel itself does not trust the counter, this is the system's monotonic clock.
    #[derive(Debug)]
    pub struct TscClock {
        source: MonotonicClock,
        counter: Option<Counter>,
    }

    #[derive(Debug)]
    struct Counter {
        clock: quanta::Clock,
        origin: u64,
        /// What to add to the counter's time to get the system's.
        offset: AtomicU64,
        /// The counter's time at which it must be set again.
        set_again_at: AtomicU64,
    }

    impl Default for TscClock {
        fn default() -> Self {
            let source = MonotonicClock::default();
            let counter = kernel_trusts_tsc().then(|| {
                let clock = quanta::Clock::new();
                let origin = clock.raw();
                let offset = AtomicU64::new(source.now().as_nanos());
                Counter { clock, origin, offset, set_again_at: AtomicU64::new(TRUSTED_NS) }
            });
            Self { source, counter }
        }
    }

    impl Clock for TscClock {
        #[inline]
        fn now(&self) -> Timestamp {
            let Some(counter) = &self.counter else { return self.source.now() };
            let elapsed = counter.clock.delta_as_nanos(counter.origin, counter.clock.raw());
            if elapsed >= counter.set_again_at.load(Ordering::Relaxed) {
                return self.set_again(counter);
            }
            // Wrapping: the offset may be "negative" once the counter has run fast.
            Timestamp::from_nanos(elapsed.wrapping_add(counter.offset.load(Ordering::Relaxed)))
        }
    }

    impl TscClock {
        #[cold]
        fn set_again(&self, counter: &Counter) -> Timestamp {
            let now = self.source.now();
            let elapsed = counter.clock.delta_as_nanos(counter.origin, counter.clock.raw());
            counter.offset.store(now.as_nanos().wrapping_sub(elapsed), Ordering::Relaxed);
            counter.set_again_at.store(elapsed + TRUSTED_NS, Ordering::Relaxed);
            now
        }
    }

    fn kernel_trusts_tsc() -> bool {
        std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .is_ok_and(|source| source.trim() == "tsc")
    }
}
