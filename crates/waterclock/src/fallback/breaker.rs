//! When to stop asking a store elsewhere that does not answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::sync::{Mutex, lock};

/// Failures in a row that open it.
const IN_A_ROW: u32 = 5;
/// Of so many calls, half failing opens it, too.
const REMEMBERED: u32 = 20;

/// Opens after 5 failures in a row, after 10 of the last 20 calls, or when nothing at all was heard
/// for this long although somebody asked. Closed again by whoever finds the store well.
#[derive(Debug)]
pub struct Breaker {
    open: AtomicBool,
    silence: Duration,
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    in_a_row: u32,
    /// One bit per call, the latest lowest; set for a failure.
    recent: u32,
    calls: u32,
    /// When the first of the calls that all failed since was made.
    silent_since: Option<Instant>,
}

impl Breaker {
    /// A closed one that bears so much silence.
    pub fn new(silence: Duration) -> Self {
        Self { open: AtomicBool::new(false), silence, heard: Mutex::new(Heard::default()) }
    }

    /// Whether nobody should ask.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Notes a call that was answered.
    pub fn succeeded(&self) {
        self.note(false);
    }

    /// Notes a failure of a call made at `asked`. True if that opened the breaker.
    pub fn failed(&self, asked: Instant, now: Instant) -> bool {
        let is_silent = {
            let mut heard = lock(&self.heard);
            let since = *heard.silent_since.get_or_insert(asked);
            now.saturating_duration_since(since) >= self.silence
        };
        let opens = self.note(true) || is_silent;
        opens && self.open()
    }

    /// Opens it without counting, where one failure is proof enough. True if it was closed.
    pub fn open(&self) -> bool {
        !self.open.swap(true, Ordering::Relaxed)
    }

    /// Closes it, and forgets all failures.
    pub fn close(&self) {
        *lock(&self.heard) = Heard::default();
        self.open.store(false, Ordering::Relaxed);
    }

    fn note(&self, failure: bool) -> bool {
        let mut heard = lock(&self.heard);
        heard.recent = (heard.recent << 1 | u32::from(failure)) & ((1 << REMEMBERED) - 1);
        heard.calls = (heard.calls + 1).min(REMEMBERED);
        if failure {
            heard.in_a_row = heard.in_a_row.saturating_add(1);
        } else {
            (heard.in_a_row, heard.silent_since) = (0, None);
        }
        let half = heard.calls == REMEMBERED && heard.recent.count_ones() * 2 >= REMEMBERED;
        heard.in_a_row >= IN_A_ROW || half
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn breaker() -> (Breaker, Instant) {
        let now = tokio::time::Instant::now().into_std();
        (Breaker::new(Duration::from_millis(100)), now)
    }

    #[test]
    fn five_in_a_row_open_it_and_closing_forgets_them() {
        let (breaker, now) = breaker();
        assert!((0..4).all(|_| !breaker.failed(now, now)));
        breaker.succeeded();
        assert!((0..4).all(|_| !breaker.failed(now, now)));
        assert!(breaker.failed(now, now));
        assert!(breaker.is_open() && !breaker.failed(now, now));
        breaker.close();
        assert!(!breaker.is_open() && !breaker.failed(now, now));
    }

    #[test]
    fn half_of_the_last_twenty_open_it() {
        let (breaker, now) = breaker();
        let opened = (0..20).any(|i| {
            if i % 2 == 1 {
                return breaker.failed(now, now);
            }
            breaker.succeeded();
            false
        });
        assert!(opened);
    }

    #[test]
    fn silence_opens_it_even_for_one_patient_caller() {
        let (breaker, start) = breaker();
        let later = |ms| start + Duration::from_millis(ms);
        assert!(!breaker.failed(start, later(50)));
        assert!(breaker.failed(later(50), later(100)));
    }

    #[test]
    fn proof_opens_it_at_once_and_once() {
        let (breaker, _) = breaker();
        assert!(breaker.open() && breaker.is_open() && !breaker.open());
    }
}
