use std::cell::Cell;

use tokio::time::Instant;
use waterclock_core::Timestamp;

thread_local! {
    static ORIGIN: Cell<Option<Instant>> = const { Cell::new(None) };
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
        ORIGIN.set(Some(Instant::now()));
        Self(())
    }

    #[inline]
    pub(super) fn now() -> Option<Timestamp> {
        ORIGIN.get().map(|origin| Self::START.after(origin.elapsed()))
    }
}

impl Drop for SimulatedTime {
    fn drop(&mut self) {
        ORIGIN.set(None);
    }
}
