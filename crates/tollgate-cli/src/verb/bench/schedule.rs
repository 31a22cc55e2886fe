//! When requests are sent, and when it is enough.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::Semaphore;
use tollgate::{Clock, MonotonicClock, Timestamp};

/// The pacer sleeps no longer than this, so that it notices the end.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Leave to send some requests.
pub(super) struct Turn {
    /// How many.
    pub(super) many: u64,
    /// From when their latency counts.
    pub(super) since: Timestamp,
}

/// Gives out turns until the time is over, enough were given, or somebody stops it.
pub(super) struct Schedule {
    clock: MonotonicClock,
    start: Timestamp,
    end: Timestamp,
    rate: Option<u64>,
    most: u64,
    /// How many requests have had their turn.
    given: AtomicU64,
    /// How many are due by now and have not had it.
    due: Semaphore,
    is_over: AtomicBool,
}

impl Schedule {
    pub(super) fn new(rate: Option<u64>, duration: Duration, most: Option<u64>) -> Schedule {
        let clock = MonotonicClock::default();
        let start = clock.now();
        Schedule {
            clock,
            start,
            end: start.after(duration),
            rate,
            most: most.unwrap_or(u64::MAX),
            given: AtomicU64::new(0),
            due: Semaphore::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// The next turn, of at most so many requests; with a rate, when they are due.
    pub(super) async fn next(&self, most: u64) -> Option<Turn> {
        if self.rate.is_some() {
            let permits = u32::try_from(most).unwrap_or(u32::MAX);
            // Closed when it is over.
            self.due.acquire_many(permits).await.ok()?.forget();
        }
        let now = self.clock.now();
        if self.is_over.load(Ordering::Acquire) || now >= self.end {
            return None;
        }
        let before = self.given.fetch_add(most, Ordering::Relaxed);
        let many = most.min(self.most.saturating_sub(before));
        let since = match self.rate {
            // The last of those that go out together: none of them was due later.
            Some(rate) => self.start.after(due_after(before + many.saturating_sub(1), rate)),
            None => now,
        };
        (many > 0).then_some(Turn { many, since })
    }

    /// Makes requests due, one after the other. On a thread of its own, because timers of the runtime are
    /// late by up to a millisecond, which would be taken for the server's.
    pub(super) fn pace(&self) {
        let Some(rate) = self.rate else { return };
        let mut released: u64 = 0;
        loop {
            let now = self.clock.now();
            if self.is_over.load(Ordering::Acquire) || now >= self.end {
                return self.stop();
            }
            let elapsed = elapsed(self.start, now);
            let due = due_within(elapsed, rate).min(self.most);
            if let Ok(more @ 1..) = usize::try_from(due - released) {
                self.due.add_permits(more);
                released = due;
            }
            if released == self.most {
                // Nobody need wait any more: those who come too late are told that it is over.
                return self.due.add_permits(Semaphore::MAX_PERMITS / 2);
            }
            let next = due_after(released, rate).saturating_sub(elapsed);
            thread::sleep(next.min(LOOK_AGAIN));
        }
    }

    /// No more turns.
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Release);
        self.due.close();
    }

    /// How long it has gone on, at most until its end.
    pub(super) fn elapsed(&self) -> Duration {
        elapsed(self.start, self.clock.now())
    }

    pub(super) fn since(&self, instant: Timestamp) -> Duration {
        elapsed(instant, self.clock.now())
    }

    /// How many requests were due in this time and had no turn: the server did not keep up.
    pub(super) fn unsent(&self, within: Duration) -> u64 {
        let Some(rate) = self.rate else { return 0 };
        // What is due at the very end is not due any more.
        let within =
            within.min(elapsed(self.start, self.end)).saturating_sub(Duration::from_nanos(1));
        let due = due_within(within, rate).min(self.most);
        due.saturating_sub(self.given.load(Ordering::Relaxed))
    }
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_nanos(to.as_nanos().saturating_sub(from.as_nanos()))
}

/// When the request with this number, from 0, is due.
fn due_after(number: u64, rate: u64) -> Duration {
    let nanos = u128::from(number) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// How many are due by then: the first at once.
fn due_within(elapsed: Duration, rate: u64) -> u64 {
    u64::try_from(elapsed.as_nanos() * u128::from(rate) / 1_000_000_000).unwrap_or(u64::MAX) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_due_in_time() {
        assert_eq!(due_within(Duration::ZERO, 3), 1);
        assert_eq!(due_within(Duration::from_millis(333), 3), 1);
        assert_eq!(due_within(Duration::from_millis(334), 3), 2);
        for number in 0..100 {
            assert!(due_within(due_after(number, 7) + Duration::from_nanos(1), 7) > number);
        }
    }
}
