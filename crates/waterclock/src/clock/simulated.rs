use std::cell::Cell;

use tokio::time::Instant;
use waterclock_core::Timestamp;

thread_local! {
    /// An instant of tokio's, and what the clocks show then.
    static SHOWN: Cell<Option<(Instant, Timestamp)>> = const { Cell::new(None) };
}

/// While it lives, every clock of this thread shows the time of tokio's runtime, which a simulation moves.
#[derive(Debug)]
pub struct SimulatedTime(());

impl SimulatedTime {
    /// What the clocks show when it begins: a day in 2023.
    pub const START: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

    /// Begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self::begin_at(Self::START)
    }

    /// Begins now, at what the clocks are to show.
    #[must_use]
    pub fn begin_at(shown: Timestamp) -> Self {
        SHOWN.set(Some((Instant::now(), shown)));
        Self(())
    }

    /// Steps to what the clocks are to show now.
    pub fn step(&self, shown: Timestamp) {
        SHOWN.set(Some((Instant::now(), shown)));
    }

    /// Whether the clocks of this thread show simulated time.
    #[must_use]
    pub fn is_shown() -> bool {
        SHOWN.get().is_some()
    }

    #[inline]
    pub(super) fn now() -> Option<Timestamp> {
        SHOWN.get().map(|(since, shown)| shown.after(since.elapsed()))
    }
}

impl Drop for SimulatedTime {
    fn drop(&mut self) {
        SHOWN.set(None);
    }
}
