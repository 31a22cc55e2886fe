//! When requests are sent, and when it is enough.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::Semaphore;
use waterclock::{Clock, MonotonicClock, Timestamp};

/// The pacer sleeps no longer than this, so that it notices the end.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

/// Permission to send some requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// How many.
    pub(super) many: u64,
    /// The first one's number, from 0.
    first: u64,
    given_at: Timestamp,
}

/// Gives out turns until the time is over, enough were given, or it is stopped.
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

    /// The next turn, of at most so many requests; with a rate, of those that are due, as soon as one is.
    pub(super) async fn next(&self, most: u64) -> Option<Turn> {
        let ready = match self.rate {
            None => most,
            Some(_) => {
                // Closed when it is over.
                self.due.acquire().await.ok()?.forget();
                let others = usize::try_from(most.saturating_sub(1)).unwrap_or(usize::MAX);
                let others = self.due.forget_permits(others);
                u64::try_from(others).map_or(most, |others| others + 1)
            }
        };
        let now = self.clock.now();
        if self.is_over.load(Ordering::Acquire) || now >= self.end {
            return None;
        }
        let first = self.given.fetch_add(ready, Ordering::Relaxed);
        let many = ready.min(self.most.saturating_sub(first));
        (many > 0).then_some(Turn { many, first, given_at: now })
    }

    /// How long ago each request of a turn was due; without a rate, how long ago they went out.
    pub(super) fn latencies(&self, turn: &Turn) -> impl Iterator<Item = Duration> {
        let (now, start, rate) = (self.clock.now(), self.start, self.rate);
        let (first, given_at) = (turn.first, turn.given_at);
        (first..first.saturating_add(turn.many)).map(move |number| match rate {
            Some(rate) => elapsed(start.after(due_after(number, rate)), now),
            None => elapsed(given_at, now),
        })
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
                // No connection needs to wait any more: late ones learn that it is over.
                return self.due.add_permits(Semaphore::MAX_PERMITS / 2);
            }
            let next = due_after(released, rate).saturating_sub(elapsed);
            thread::sleep(next.min(LONGEST_SLEEP));
        }
    }

    /// No more turns.
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Release);
        self.due.close();
    }

    /// How long it has gone on. After the end the last answers are still waited for, and counted: this goes
    /// on until they have come.
    pub(super) fn elapsed(&self) -> Duration {
        elapsed(self.start, self.clock.now())
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

    #[tokio::test]
    async fn each_request_counts_from_its_own_instant() {
        // As if the first ten were due by now, half a millisecond apart.
        let schedule = Schedule::new(Some(2_000), Duration::from_secs(60), None);
        schedule.due.add_permits(10);
        let turns = [schedule.next(4).await.unwrap(), schedule.next(1_024).await.unwrap()];
        assert_eq!(turns.each_ref().map(|turn| (turn.first, turn.many)), [(0, 4), (4, 6)]);
        thread::sleep(Duration::from_millis(10));
        let latencies: Vec<Duration> = schedule.latencies(&turns[1]).collect();
        let apart = latencies.windows(2).map(|pair| pair[0] - pair[1]);
        assert_eq!(latencies.len(), 6);
        assert!(
            apart.into_iter().all(|apart| apart == Duration::from_micros(500)),
            "{latencies:?}"
        );
    }

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
