//! Waiting for something to become true, but not forever.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything on this machine may take before it counts as broken. Machines that run many
/// tests at once are slow; nothing that works waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// What `look` finds, or `None` if it found nothing for as long as `bound`.
#[expect(clippy::disallowed_methods, reason = "real processes live in real time")]
pub(super) fn within<T>(bound: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if start.elapsed() >= bound {
            return None;
        }
        sleep(PAUSE);
    }
}

/// What `look` finds; panics if it finds nothing for too long.
#[track_caller]
pub(super) fn find<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    let found = within(PATIENCE, look);
    found.unwrap_or_else(|| panic!("waited {} s in vain: {what}", PATIENCE.as_secs()))
}

/// Waits until something holds; panics if it does not for too long.
#[track_caller]
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    find(what, || holds().then_some(()));
}
