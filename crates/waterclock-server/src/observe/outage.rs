//! Since when the store is unreachable.

use parking_lot::Mutex;
use waterclock::Timestamp;

/// Since when the store is unreachable, if it is.
#[derive(Default)]
pub(crate) struct Outage {
    since: Mutex<Option<Timestamp>>,
}

impl Outage {
    /// Notes whether the store is unreachable. Returns whether that has changed.
    pub(crate) fn note(&self, is_degraded: bool, now: Timestamp) -> bool {
        let mut since = self.since.lock();
        let has_changed = since.is_some() != is_degraded;
        if has_changed {
            *since = is_degraded.then_some(now);
        }
        has_changed
    }

    /// When it was first noticed.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        *self.since.lock()
    }
}
