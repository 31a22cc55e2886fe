//! How long this node has been without the store.
//!
//! [`Serving::local_for`](super::Serving::local_for) bounds what a node admits in an outage without charging the store.
//! Proof: a local answer is given only if the clock is within `[began, began + local_for)` before and after the share
//! decides, and the share has a bound A. So one outage admits at most A(`local_for`) per node: for a bucket,
//! capacity / nodes + rate / nodes · `local_for`. Units are returned to the share only when the store is charged for
//! them. `began` moves only when the store has answered for [`OVER_AFTER`] without a failure, so a store that comes and
//! goes grants no second share before that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use waterclock_core::Timestamp;

use crate::sync::{Mutex, lock};

/// An outage is over when every call has been answered for so long. Shorter interruptions belong to it.
const OVER_AFTER: Duration = Duration::from_secs(60);

/// The outage that this node is in, or was in last.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// Whether the last call failed.
    failing: AtomicBool,
    times: Mutex<Times>,
}

#[derive(Debug, Default)]
struct Times {
    /// When the first call of the outage failed.
    began: Option<Timestamp>,
    /// Since when every call has been answered.
    answered_since: Option<Timestamp>,
}

impl Outage {
    /// Notes that a call failed, and returns when the outage began.
    pub(super) fn failed(&self, now: Timestamp) -> Timestamp {
        let mut times = lock(&self.times);
        self.failing.store(true, Ordering::Relaxed);
        let answered_since = times.answered_since.take();
        if answered_since.is_some_and(|since| now.since(since) >= OVER_AFTER) {
            times.began = None;
        }
        *times.began.get_or_insert(now)
    }

    /// Whether the last call failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Notes that the store answers.
    pub(super) fn answered(&self, now: Timestamp) {
        let mut times = lock(&self.times);
        self.failing.store(false, Ordering::Relaxed);
        times.answered_since.get_or_insert(now);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn it_lasts_until_the_store_has_answered_for_a_minute() {
        let outage = Outage::default();
        assert_eq!(outage.failed(at(100)), at(100));
        assert_eq!(outage.failed(at(5_000)), at(100), "silence does not end it");
        outage.answered(at(5_010));
        assert_eq!(outage.failed(at(5_069)), at(100), "59 s are too short");
        outage.answered(at(5_070));
        outage.answered(at(5_129));
        assert_eq!(outage.failed(at(5_130)), at(5_130), "60 s end it");
        assert_eq!(outage.failed(at(5_131)), at(5_130));
    }

    #[test]
    fn a_failure_in_between_starts_the_minute_over() {
        let outage = Outage::default();
        outage.failed(at(1));
        for second in (2..1_000).step_by(40) {
            outage.answered(at(second));
            assert_eq!(outage.failed(at(second + 39)), at(1));
        }
    }
}
