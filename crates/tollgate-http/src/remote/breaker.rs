//! When to leave a server alone that does not answer.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long nobody asks after the first failure; twice as long after each that follows.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);

/// After a failure nobody asks for a while; then one caller tries for all. So a server that is gone costs
/// one caller its patience, once a second.
#[derive(Debug, Default)]
pub(super) struct Breaker(Mutex<Pause>);

#[derive(Debug, Default)]
struct Pause {
    /// `None` while all is well.
    until: Option<Instant>,
    in_a_row: u32,
    is_tried: bool,
}

/// Leave to ask. Whoever has it says how it went; dropped, nothing was learned.
#[derive(Debug)]
pub(super) struct Leave<'b> {
    breaker: &'b Breaker,
    is_trial: bool,
}

impl Breaker {
    /// Leave to ask now, if somebody should.
    pub(super) fn enter(&self, now: Instant) -> Option<Leave<'_>> {
        let mut pause = self.0.lock();
        let is_trial = match pause.until {
            None => false,
            Some(until) if now < until || pause.is_tried => return None,
            Some(_) => true,
        };
        pause.is_tried = is_trial;
        Some(Leave { breaker: self, is_trial })
    }

    /// Whether the server is left alone, or was when it was last asked.
    pub(super) fn is_open(&self) -> bool {
        self.0.lock().until.is_some()
    }
}

impl Leave<'_> {
    /// The server answers.
    pub(super) fn succeeded(self) {
        *self.breaker.0.lock() = Pause::default();
    }

    /// It does not.
    pub(super) fn failed(self, now: Instant) {
        let mut pause = self.breaker.0.lock();
        // Of many who asked at once the first has said it for all.
        if pause.until.is_none() || self.is_trial {
            let doubled = SHORTEST * 2_u32.saturating_pow(pause.in_a_row.min(8));
            pause.until = Some(now + doubled.min(LONGEST));
            pause.in_a_row = pause.in_a_row.saturating_add(1);
        }
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if self.is_trial {
            self.breaker.0.lock().is_tried = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn pauses_double_up_to_a_second() {
        let (breaker, mut now) = (Breaker::default(), Instant::now());
        for pause in [100, 200, 400, 800, 1_000, 1_000] {
            breaker.enter(now).unwrap().failed(now);
            assert!(breaker.is_open());
            assert!(breaker.enter(after(now, pause - 1)).is_none(), "{pause}");
            now = after(now, pause);
        }
        breaker.enter(now).unwrap().succeeded();
        assert!(!breaker.is_open());
        breaker.enter(now).unwrap().failed(now);
        assert!(breaker.enter(after(now, 100)).is_some(), "starts over");
    }

    #[test]
    fn one_tries_for_all() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        breaker.enter(now).unwrap().failed(now);
        let trial = breaker.enter(after(now, 100)).unwrap();
        assert!(breaker.enter(after(now, 100)).is_none());
        drop(trial);
        assert!(breaker.enter(after(now, 100)).is_some(), "nobody is kept out by who gave up");
    }

    #[test]
    fn those_who_asked_together_fail_once() {
        let (breaker, now) = (Breaker::default(), Instant::now());
        let asking: Vec<_> = (0..10).map(|_| breaker.enter(now).unwrap()).collect();
        asking.into_iter().for_each(|leave| leave.failed(now));
        assert!(breaker.enter(after(now, 100)).is_some());
    }
}
