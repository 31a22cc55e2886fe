use std::sync::OnceLock;
use std::time::Instant;

use waterclock_core::Timestamp;

use super::guard::{Guard, Source};
use super::{Clock, counter, nanos, unix_nanos};

/// The default clock: the processor's time stamp counter, guarded by the system's monotonic clock.
///
/// It is read in a third of the time of [`MonotonicClock`](super::MonotonicClock), and at most 20 µs behind it; less than
/// 1 ms off where the counter jumps or changes its rate, unless that falls below a half. The first 10 ms of a process, and
/// where there is no counter that the kernel itself keeps time by, it reads the system's clock. The counter is read on Linux
/// on x86-64 only.
///
/// Like [`MonotonicClock`](super::MonotonicClock) it is set once to the wall clock, when it is made.
#[derive(Clone, Copy, Debug)]
pub struct TscClock {
    /// What to add to the process's time. Wrapping.
    offset: u64,
}

/// The counter is measured once for all clocks of the process.
static PROCESS: Guard<Machine> = Guard::new(Machine);

#[derive(Debug)]
struct Machine;

impl Source for Machine {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        counter::ticks()
    }

    fn system(&self) -> u64 {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        1_000_000_000 + nanos(ORIGIN.get_or_init(Instant::now).elapsed())
    }

    fn is_trusted(&self) -> Option<bool> {
        counter::is_trusted()
    }
}

impl Default for TscClock {
    fn default() -> Self {
        Self { offset: unix_nanos().wrapping_sub(PROCESS.now()) }
    }
}

impl Clock for TscClock {
    #[inline]
    fn now(&self) -> Timestamp {
        #[cfg(feature = "simulation")]
        if let Some(now) = super::SimulatedTime::now() {
            return now;
        }
        Timestamp::from_nanos(PROCESS.now().wrapping_add(self.offset))
    }
}
