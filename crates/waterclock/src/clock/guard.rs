//! Time by a counter that is not trusted further than the system's clock confirms it.
//!
//! The counter is read for half a millisecond at a time. Then it is set by the system's clock again; so it shows no instant
//! that is a millisecond off, however fast it runs or jumps, unless it slows down to less than half its rate, which no
//! processor that the kernel trusts does. If it has parted from the system's clock by more than that, is half a
//! millisecond ahead, or is not trusted by the kernel any more, it is never read again. A system's clock that is slewed
//! by more than about 700 ppm below the rate at which the counter was measured ends its use, too.
//!
//! Time does not go back:
//!
//! - The counter's time is `ticks · rate + offset`. `rate` is set once, and `offset` only grows, so threads may see a
//!   new offset early or late: each value alone is as good as the other, and no thread sees time go back.
//! - That needs a counter that is never ahead when it is set. So `rate` is 1/1024 slow, more than the error of measuring
//!   it (1/4096) and what NTP may slow down the system's clock by (500 ppm) together: in half a millisecond it loses half
//!   a microsecond, and is set forward by that.
//! - Where the system's clock stands in, because the counter is being set, it is shown [`LAG`] late: not ahead of what
//!   the counter shows next.
//! - A counter that itself steps back shows as much if it steps back by less than it has run since it was set. Limiters
//!   take the latest instant they have seen.
//! - When the counter is given up, time stands still at the latest instant that it can have given, until the system's
//!   clock is there too.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MS: u64 = 1_000_000;
/// How long the counter is read before it is set again.
const WINDOW_NS: u64 = MS / 2;
/// How often the source of the kernel's time is looked up: that is a file.
const LOOK_NS: u64 = 100 * MS;
/// How long the counter's rate is measured, at least; the system's clock is read until then.
const MEASURE_NS: u64 = 10 * MS;
/// Reading both clocks takes some time. The rate is measured for so many times as long.
const MEASURE_RATIO: u64 = 4_096;
/// How much slower than measured the counter is taken to run: one part in so many.
const SLOW: u64 = 1_024;
/// Both clocks read this far apart are too far apart: the thread was interrupted between the two.
const MAX_APART_NS: u64 = 8_000;
/// How late the system's clock is shown: more than that, and what the counter loses in a window.
const LAG: u64 = 2 * MAX_APART_NS;

/// What is guarded, and what guards it.
pub(super) trait Source {
    /// The counter.
    fn ticks(&self) -> u64;
    /// Nanoseconds by the system's clock, which starts at no less than [`LAG`].
    fn system(&self) -> u64;
    /// Whether the kernel keeps time by the counter, if it can be asked.
    fn is_trusted(&self) -> Option<bool>;
}

/// A clock that reads a counter. One for all threads.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Guard<S> {
    /// For how many ticks the counter is read after it was set; 0 while it is not read.
    window: AtomicU64,
    /// The ticks at which it was set.
    set_at: AtomicU64,
    /// Nanoseconds of a tick, times 2^64. Counters of less than 1 GHz are not read.
    rate: AtomicU64,
    offset: AtomicU64,
    /// Given up for good: the system's clock is read.
    is_given_up: AtomicBool,
    /// The latest instant that the counter can have given before that.
    floor: AtomicU64,
    state: Mutex<State>,
    source: S,
}

/// Both clocks at one instant.
#[derive(Clone, Copy, Debug)]
struct Sample {
    ticks: u64,
    system: u64,
    /// How long it took to read them.
    apart: u64,
}

#[derive(Debug)]
enum State {
    Start,
    Measuring(Sample),
    Reading {
        last: Sample,
        /// When the kernel was last asked whether it trusts the counter.
        looked_at: u64,
        /// As measured, not slowed.
        rate: u64,
    },
}

impl<S> Guard<S> {
    pub(super) const fn new(source: S) -> Self {
        Self {
            window: AtomicU64::new(0),
            set_at: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            is_given_up: AtomicBool::new(false),
            floor: AtomicU64::new(0),
            state: Mutex::new(State::Start),
            source,
        }
    }
}

impl<S: Source> Guard<S> {
    /// Nanoseconds since some instant.
    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        // With the window come the rate and a first offset.
        let window = self.window.load(Ordering::Acquire);
        let set_at = self.set_at.load(Ordering::Relaxed);
        let ticks = self.source.ticks();
        // Wrapping: a counter that stepped back is out of the window too.
        if ticks.wrapping_sub(set_at) < window {
            return self.at(ticks);
        }
        self.set_again(ticks)
    }

    /// What the counter shows.
    #[inline(always)]
    fn at(&self, ticks: u64) -> u64 {
        let elapsed = scaled(ticks, self.rate.load(Ordering::Relaxed));
        elapsed.wrapping_add(self.offset.load(Ordering::Relaxed))
    }

    /// Out of the window: sets the counter by the system's clock.
    #[cold]
    #[inline(never)]
    fn set_again(&self, ticks: u64) -> u64 {
        if self.is_given_up.load(Ordering::Acquire) {
            return self.late().max(self.floor.load(Ordering::Relaxed));
        }
        // While another thread does so, the system's clock is read.
        let Ok(mut state) = self.state.try_lock() else { return self.stand_in(ticks) };
        match &mut *state {
            State::Start if self.source.is_trusted() == Some(true) => {
                *state = State::Measuring(self.sample());
            }
            State::Start => self.give_up(),
            State::Measuring(start) => {
                let start = *start;
                self.measure(start, &mut state);
            }
            State::Reading { last, looked_at, rate } => {
                let now = self.sample();
                let looks = now.system.saturating_sub(*looked_at) >= LOOK_NS;
                if now.apart > MAX_APART_NS {
                    return self.stand_in(ticks);
                }
                let is_ahead = self.at(now.ticks) > now.system + WINDOW_NS;
                let has_strayed = is_ahead || have_parted(last, &now, *rate);
                // A kernel that cannot be asked has not said no.
                if has_strayed || looks && self.source.is_trusted() == Some(false) {
                    self.give_up();
                    return self.late().max(self.floor.load(Ordering::Relaxed));
                }
                if looks {
                    *looked_at = now.system;
                }
                *last = now;
                return self.set(&now);
            }
        }
        self.stand_in(ticks)
    }

    /// The system's time, for one read.
    fn stand_in(&self, ticks: u64) -> u64 {
        let (window, set_at) =
            (self.window.load(Ordering::Acquire), self.set_at.load(Ordering::Relaxed));
        if window == 0 {
            return self.late().max(self.floor.load(Ordering::Relaxed));
        }
        // The latest instant that this thread can have seen. If the counter was set just now, the ticks are from before.
        let passed = ticks.wrapping_sub(set_at);
        let seen = if passed > u64::MAX / 2 { 0 } else { passed.min(window) };
        self.late().max(self.at(set_at.wrapping_add(seen)))
    }

    fn late(&self) -> u64 {
        self.source.system().saturating_sub(LAG)
    }

    /// Sets the counter to this instant, or leaves it as it is if it is ahead.
    fn set(&self, now: &Sample) -> u64 {
        let shown = self.at(now.ticks).max(now.system);
        let offset = shown.wrapping_sub(scaled(now.ticks, self.rate.load(Ordering::Relaxed)));
        self.offset.store(offset, Ordering::Relaxed);
        self.set_at.store(now.ticks, Ordering::Relaxed);
        shown
    }

    /// Starts to read the counter once its rate is known well enough.
    fn measure(&self, start: Sample, state: &mut State) {
        if self.source.system().saturating_sub(start.system) < MEASURE_NS {
            return;
        }
        let now = self.sample();
        let passed = now.system.saturating_sub(start.system);
        if passed / MEASURE_RATIO < start.apart + now.apart || now.apart > MAX_APART_NS {
            // A worse start than this is not worth keeping.
            if now.apart < start.apart / 2 {
                *state = State::Measuring(now);
            }
            return;
        }
        let ticks = now.ticks.wrapping_sub(start.ticks);
        let rate = (u128::from(passed) << 64).checked_div(ticks.into());
        let window = u128::from(ticks) * u128::from(WINDOW_NS) / u128::from(passed.max(1));
        let (Some(Ok(rate)), Ok(window)) = (rate.map(u64::try_from), u64::try_from(window)) else {
            return self.give_up();
        };
        // Ticks that could wrap would be no line.
        if now.ticks > u64::MAX / 2 || self.source.is_trusted() != Some(true) {
            return self.give_up();
        }
        let slow = rate - rate / SLOW;
        self.rate.store(slow, Ordering::Relaxed);
        let offset = now.system.wrapping_sub(scaled(now.ticks, slow));
        self.offset.store(offset, Ordering::Relaxed);
        self.set_at.store(now.ticks, Ordering::Relaxed);
        self.window.store(window, Ordering::Release);
        *state = State::Reading { last: now, looked_at: now.system, rate };
    }

    fn give_up(&self) {
        let window = self.window.load(Ordering::Relaxed);
        if window > 0 {
            let last = self.set_at.load(Ordering::Relaxed).wrapping_add(window);
            self.floor.store(self.at(last), Ordering::Relaxed);
        }
        self.is_given_up.store(true, Ordering::Release);
        self.window.store(0, Ordering::Release);
    }

    /// The best of a few readings of both clocks. The system's time is the earlier of two.
    fn sample(&self) -> Sample {
        let read = || {
            let system = self.source.system();
            let ticks = self.source.ticks();
            Sample { ticks, system, apart: self.source.system().saturating_sub(system) }
        };
        let mut best = read();
        for _ in 0..2 {
            if best.apart <= MAX_APART_NS {
                break;
            }
            best = std::cmp::min_by_key(best, read(), |sample| sample.apart);
        }
        best
    }
}

/// Whether the two clocks disagree about how much time has passed by more than a millisecond, or by more than can be
/// explained where much has.
fn have_parted(last: &Sample, now: &Sample, rate: u64) -> bool {
    let by_counter = scaled(now.ticks.wrapping_sub(last.ticks), rate);
    let by_system = now.system.saturating_sub(last.system);
    by_counter.abs_diff(by_system) > MS + by_system / SLOW
}

#[inline(always)]
fn scaled(ticks: u64, rate: u64) -> u64 {
    ((u128::from(ticks) * u128::from(rate)) >> 64) as u64
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
