//! When to leave a server alone that does not answer, and when to try it again.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use waterclock::fallback;

/// How long nobody asks at first; twice as long after each trial that fails.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);

/// While it is open nobody asks for a while; then one caller tries for all. So a server that is gone costs
/// one caller its patience, about once a second.
#[derive(Debug)]
pub(super) struct Breaker {
    counts: fallback::Breaker,
    pause: Mutex<Pause>,
}

/// Of no meaning while the breaker is closed.
#[derive(Debug, Default)]
struct Pause {
    until: Option<Instant>,
    in_a_row: u32,
    is_tried: bool,
}

/// Leave to ask. Whoever has it says how it went; dropped, nothing was learned.
#[derive(Debug)]
pub(super) struct Leave<'b> {
    breaker: &'b Breaker,
    asked: Instant,
    is_trial: bool,
}

impl Breaker {
    pub(super) fn new(silence: Duration) -> Self {
        Self { counts: fallback::Breaker::new(silence), pause: Mutex::default() }
    }

    /// Leave to ask now, if somebody should.
    pub(super) fn enter(&self, now: Instant) -> Option<Leave<'_>> {
        let is_trial = self.counts.is_open();
        if is_trial {
            let mut pause = self.pause.lock();
            if pause.is_tried || pause.until.is_some_and(|until| now < until) {
                return None;
            }
            pause.is_tried = true;
        }
        Some(Leave { breaker: self, asked: now, is_trial })
    }

    /// Whether the server is left alone.
    pub(super) fn is_open(&self) -> bool {
        self.counts.is_open()
    }
}

impl Leave<'_> {
    /// The server answers.
    pub(super) fn succeeded(self) {
        if self.is_trial {
            let mut pause = self.breaker.pause.lock();
            (pause.until, pause.in_a_row) = (None, 0);
            self.breaker.counts.close();
        } else {
            self.breaker.counts.succeeded();
        }
    }

    /// It does not, this time.
    pub(super) fn failed(self, now: Instant) {
        // Locked before the breaker opens, so that nobody tries before it is known when to.
        let mut pause = self.breaker.pause.lock();
        let opened = self.breaker.counts.failed(self.asked.into_std(), now.into_std());
        if opened || self.is_trial {
            pause.begin(now);
        }
    }

    /// It does not, and need not be asked more often to know.
    pub(super) fn found_gone(self, now: Instant) {
        let mut pause = self.breaker.pause.lock();
        if self.breaker.counts.open() || self.is_trial {
            pause.begin(now);
        }
    }
}

impl Pause {
    /// Between half of what it may be and all of it: nodes that lost the same server do not come back in step.
    fn begin(&mut self, now: Instant) {
        let longest = (SHORTEST * 2_u32.saturating_pow(self.in_a_row.min(8))).min(LONGEST);
        self.until = Some(now + longest.mul_f64(0.5 + fastrand::f64() / 2.0));
        self.in_a_row = self.in_a_row.saturating_add(1);
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if self.is_trial {
            self.breaker.pause.lock().is_tried = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker() -> (Breaker, Instant) {
        (Breaker::new(Duration::from_secs(3_600)), Instant::now())
    }

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn one_failure_is_nobody_else_s() {
        let (breaker, now) = breaker();
        for _ in 0..10 {
            (0..4).for_each(|_| breaker.enter(now).unwrap().failed(now));
            assert!(!breaker.is_open());
            (0..9).for_each(|_| breaker.enter(now).unwrap().succeeded());
        }
        (0..5).for_each(|_| breaker.enter(now).unwrap().failed(now));
        assert!(breaker.is_open() && breaker.enter(now).is_none());
    }

    #[test]
    fn pauses_double_up_to_a_second() {
        let (breaker, mut now) = breaker();
        for pause in [100, 200, 400, 800, 1_000, 1_000] {
            breaker.enter(now).unwrap().found_gone(now);
            assert!(breaker.is_open());
            assert!(breaker.enter(after(now, pause / 2 - 1)).is_none(), "{pause}");
            now = after(now, pause);
        }
        breaker.enter(now).unwrap().succeeded();
        assert!(!breaker.is_open());
        breaker.enter(now).unwrap().found_gone(now);
        assert!(breaker.enter(after(now, 100)).is_some(), "starts over");
    }

    #[test]
    fn pauses_differ() {
        let is_tried_by = |ms| {
            let (breaker, now) = breaker();
            breaker.enter(now).unwrap().found_gone(now);
            breaker.enter(after(now, ms)).is_some()
        };
        let tried = (0..1_000).filter(|_| is_tried_by(75)).count();
        assert!((300..700).contains(&tried), "{tried}");
    }

    #[test]
    fn one_tries_for_all() {
        let (breaker, now) = breaker();
        breaker.enter(now).unwrap().found_gone(now);
        let trial = breaker.enter(after(now, 100)).unwrap();
        assert!(breaker.enter(after(now, 100)).is_none());
        drop(trial);
        assert!(breaker.enter(after(now, 100)).is_some(), "nobody is kept out by who gave up");
    }

    #[test]
    fn those_who_asked_together_fail_once() {
        let (breaker, now) = breaker();
        let asking: Vec<_> = (0..10).map(|_| breaker.enter(now).unwrap()).collect();
        asking.into_iter().for_each(|leave| leave.failed(now));
        assert!(breaker.enter(after(now, 100)).is_some());
    }
}
