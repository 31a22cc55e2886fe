//! How long this node has been without the store.
//!
//! [`Serving::local_for`](super::Serving::local_for) bounds what a node admits in an outage without charging the store.
//! Proof: a local answer is given only if the clock is within `[began, began + local_for)` before and after the share
//! decides, and the share has a bound A. So one outage admits at most A(`local_for`) per node: for a bucket,
//! capacity / nodes + rate / nodes · `local_for`. Units are returned to the share only when the store is charged for
//! them. `began` moves only when the store has answered at both ends of [`OVER_AFTER`] without a failure in between, so
//! neither a store that comes and goes nor one that nobody calls grants a second share before that.
//!
//! This holds for failures that are outages. What the store says of a single key, or of its memory, is none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use waterclock_core::Timestamp;

use crate::sync::{Mutex, lock};

/// An outage is over when every call has been answered for so long. Shorter interruptions belong to it, and silence does.
const OVER_AFTER: Duration = Duration::from_secs(60);

/// The outage that this node is in, or was in last.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// Whether there is one that is not over.
    lasts: AtomicBool,
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
        self.lasts.store(true, Ordering::Relaxed);
        times.answered_since = None;
        *times.began.get_or_insert(now)
    }

    /// When it began; none if it is over.
    pub(super) fn began(&self) -> Option<Timestamp> {
        self.lasts().then(|| lock(&self.times).began).flatten()
    }

    pub(super) fn lasts(&self) -> bool {
        self.lasts.load(Ordering::Relaxed)
    }

    /// Whether an answer at this time brings its end nearer: the first after a failure, and one that ends it.
    pub(super) fn awaits_answer(&self, now: Timestamp) -> bool {
        let answered_since = lock(&self.times).answered_since;
        answered_since.is_none_or(|since| now.since(since) >= OVER_AFTER)
    }

    /// Notes that the store answers.
    pub(super) fn answered(&self, now: Timestamp) {
        let mut times = lock(&self.times);
        let since = *times.answered_since.get_or_insert(now);
        if now.since(since) >= OVER_AFTER {
            *times = Times::default();
            self.lasts.store(false, Ordering::Relaxed);
        }
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
        assert_eq!(outage.began(), Some(at(100)));
        outage.answered(at(5_130));
        assert_eq!(outage.began(), None, "60 s end it");
        assert_eq!(outage.failed(at(5_131)), at(5_131));
        assert_eq!(outage.failed(at(5_132)), at(5_131));
    }

    #[test]
    fn a_minute_without_calls_does_not_end_it() {
        let outage = Outage::default();
        outage.failed(at(1));
        outage.answered(at(10));
        assert_eq!(outage.failed(at(71)), at(1));
        outage.answered(at(80));
        outage.answered(at(1_000));
        assert_eq!(outage.failed(at(1_001)), at(1_001), "answers at both ends of a long time");
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
