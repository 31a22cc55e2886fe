//! Stops calls to a server that fails, and finds out when it is back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use waterclock_core::Timestamp;

use crate::sync::{Mutex, lock};

/// Consecutive failures that open it.
const IN_A_ROW: u32 = 5;
/// It also opens if half of this many calls failed.
const REMEMBERED: u32 = 20;
/// The pause before the first trial; it doubles after each trial that fails.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The breaker of one server. It opens after 5 consecutive failures, after 10 failures among the last 20 calls, or
/// when every call failed for a given time. A call whose caller stopped waiting before the server's deadline was over is
/// no failure: it counts only as silence ([`Permit::gave_up`]).
///
/// While it is open, one caller after each pause may try the server ([`enter`](Self::enter)); or none does
/// ([`enter_closed`](Self::enter_closed)), and a background task probes the server and calls
/// [`close`](Self::close). A store with several servers needs one breaker per server.
#[derive(Debug)]
pub struct Breaker {
    open: AtomicBool,
    silence: Duration,
    history: Mutex<History>,
}

#[derive(Debug, Default)]
struct History {
    in_a_row: u32,
    /// One bit per call, the latest lowest; set for a failure.
    recent: u32,
    calls: u32,
    /// When the first of the calls without an answer since was made.
    silent_since: Option<Timestamp>,
    /// When the next trial is due, while the breaker is open.
    trial_at: Option<Timestamp>,
    failed_trials: u32,
    is_tried: bool,
}

/// Permission for one call. Report how the call went; dropping it reports nothing.
#[derive(Debug)]
#[must_use]
pub struct Permit<'b> {
    breaker: &'b Breaker,
    asked: Timestamp,
    is_trial: bool,
}

impl Breaker {
    /// A closed breaker that opens after `silence` without any success.
    #[must_use]
    pub fn new(silence: Duration) -> Self {
        Self { open: AtomicBool::new(false), silence, history: Mutex::new(History::default()) }
    }

    /// Whether calls are stopped.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Permission to call. While the breaker is open, only for one trial after each pause.
    pub fn enter(&self, now: Timestamp) -> Option<Permit<'_>> {
        let is_trial = self.is_open();
        if is_trial {
            let mut history = lock(&self.history);
            if history.is_tried || history.trial_at.is_some_and(|at| now < at) {
                return None;
            }
            history.is_tried = true;
        }
        Some(Permit { breaker: self, asked: now, is_trial })
    }

    /// Permission to call unless the breaker is open: for servers that are probed in the background.
    pub fn enter_closed(&self, now: Timestamp) -> Option<Permit<'_>> {
        (!self.is_open()).then_some(Permit { breaker: self, asked: now, is_trial: false })
    }

    /// Closes it and clears its history.
    pub fn close(&self) {
        let mut history = lock(&self.history);
        let is_tried = history.is_tried;
        *history = History { is_tried, ..History::default() };
        self.open.store(false, Ordering::Relaxed);
    }
}

impl Permit<'_> {
    /// The server answered.
    pub fn succeeded(self) {
        if self.is_trial {
            self.breaker.close();
        } else {
            lock(&self.breaker.history).note(false);
        }
    }

    /// The server failed. True if that opened the breaker.
    pub fn failed(self, now: Timestamp) -> bool {
        let mut history = lock(&self.breaker.history);
        let is_silent = self.is_silent(&mut history, now);
        let opens = history.note(true) || is_silent;
        self.open(&mut history, opens, now)
    }

    /// The caller stopped waiting before the server's own deadline was over. That opens the breaker only after the
    /// silence that does so in any case. True if it did.
    ///
    /// If the answer comes later, or does not come in time, report that by a permit of its own.
    pub fn gave_up(self, now: Timestamp) -> bool {
        let mut history = lock(&self.breaker.history);
        let is_silent = self.is_silent(&mut history, now);
        self.open(&mut history, is_silent, now)
    }

    /// Notes that there is no answer to this call; whether there was none to any for too long.
    fn is_silent(&self, history: &mut History, now: Timestamp) -> bool {
        let since = *history.silent_since.get_or_insert(self.asked);
        now.since(since) >= self.breaker.silence
    }

    /// Nothing listens at the server's address: opens at once. True if that opened the breaker.
    pub fn refused(self, now: Timestamp) -> bool {
        let mut history = lock(&self.breaker.history);
        self.open(&mut history, true, now)
    }

    /// Opens the breaker under its lock, so that no trial starts before its time is known.
    fn open(&self, history: &mut History, opens: bool, now: Timestamp) -> bool {
        let opened = opens && !self.breaker.open.swap(true, Ordering::Relaxed);
        if opened || self.is_trial {
            history.pause(now);
        }
        opened
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.is_trial {
            lock(&self.breaker.history).is_tried = false;
        }
    }
}

impl History {
    /// Notes a call. True if the breaker should be open.
    fn note(&mut self, failure: bool) -> bool {
        self.recent = (self.recent << 1 | u32::from(failure)) & ((1 << REMEMBERED) - 1);
        self.calls = (self.calls + 1).min(REMEMBERED);
        if failure {
            self.in_a_row = self.in_a_row.saturating_add(1);
        } else {
            (self.in_a_row, self.silent_since) = (0, None);
        }
        let half = self.calls == REMEMBERED && self.recent.count_ones() * 2 >= REMEMBERED;
        self.in_a_row >= IN_A_ROW || half
    }

    /// Half of the pause is random: nodes that lost the same server do not retry at the same time.
    fn pause(&mut self, now: Timestamp) {
        let doubled = SHORTEST_PAUSE * 2_u32.saturating_pow(self.failed_trials.min(8));
        let pause = doubled.min(LONGEST_PAUSE).mul_f64(0.5 + fastrand::f64() / 2.0);
        self.trial_at = Some(now.after(pause));
        self.failed_trials = self.failed_trials.saturating_add(1);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_nanos(1_000_000_000);

    fn breaker() -> Breaker {
        Breaker::new(Duration::from_millis(100))
    }

    /// One that no silence opens.
    fn patient() -> Breaker {
        Breaker::new(Duration::from_secs(3_600))
    }

    fn after(start: Timestamp, ms: u64) -> Timestamp {
        start.after(Duration::from_millis(ms))
    }

    /// Fails a call that takes no time; whether that opened the breaker.
    fn fail(breaker: &Breaker) -> bool {
        breaker.enter_closed(START).is_some_and(|permit| permit.failed(START))
    }

    #[test]
    fn five_in_a_row_open_it_and_closing_clears_them() {
        let breaker = breaker();
        assert!((0..4).all(|_| !fail(&breaker)));
        breaker.enter(START).unwrap().succeeded();
        assert!((0..4).all(|_| !fail(&breaker)));
        assert!(fail(&breaker));
        assert!(breaker.is_open() && !fail(&breaker));
        breaker.close();
        assert!(!breaker.is_open() && !fail(&breaker));
    }

    #[test]
    fn half_of_the_last_twenty_open_it() {
        let breaker = breaker();
        let opened = (0..20).any(|i| {
            if i % 2 == 1 {
                return fail(&breaker);
            }
            breaker.enter(START).unwrap().succeeded();
            false
        });
        assert!(opened);
    }

    #[test]
    fn silence_opens_it_even_for_one_patient_caller() {
        let breaker = breaker();
        assert!(!breaker.enter(START).unwrap().failed(after(START, 50)));
        assert!(breaker.enter(after(START, 50)).unwrap().failed(after(START, 100)));
    }

    #[test]
    fn impatient_callers_open_it_by_silence_only() {
        let breaker = breaker();
        let give_up = |at, now| breaker.enter(after(START, at)).unwrap().gave_up(after(START, now));
        assert!((0..84).all(|at| !give_up(at, at + 15)));
        breaker.enter(START).unwrap().succeeded();
        assert!((85..184).all(|at| !give_up(at, at + 1)), "an answer ends the silence");
        assert!(give_up(184, 185), "100 ms without an answer");
        assert!(breaker.is_open());
        // A trial that is given up says nothing.
        assert!(!breaker.enter(after(START, 285)).unwrap().gave_up(after(START, 300)));
        assert!(breaker.is_open() && breaker.enter(after(START, 301)).is_none());
    }

    #[test]
    fn a_refused_connection_opens_it_at_once_and_once() {
        let breaker = breaker();
        let both = [breaker.enter(START).unwrap(), breaker.enter(START).unwrap()];
        let opened = both.map(|permit| permit.refused(START));
        assert_eq!((opened, breaker.is_open()), ([true, false], true));
    }

    #[test]
    fn four_failures_among_successes_do_not_open_it() {
        let breaker = patient();
        for _ in 0..10 {
            (0..4).for_each(|_| _ = breaker.enter(START).unwrap().failed(START));
            assert!(!breaker.is_open());
            (0..9).for_each(|_| breaker.enter(START).unwrap().succeeded());
        }
        (0..5).for_each(|_| _ = breaker.enter(START).unwrap().failed(START));
        assert!(breaker.is_open() && breaker.enter(START).is_none());
    }

    #[test]
    fn pauses_double_up_to_a_second() {
        let (breaker, mut now) = (patient(), START);
        for pause in [100, 200, 400, 800, 1_000, 1_000] {
            breaker.enter(now).unwrap().refused(now);
            assert!(breaker.is_open());
            assert!(breaker.enter(after(now, pause / 2 - 1)).is_none(), "{pause}");
            now = after(now, pause);
        }
        breaker.enter(now).unwrap().succeeded();
        assert!(!breaker.is_open());
        breaker.enter(now).unwrap().refused(now);
        assert!(breaker.enter(after(now, 100)).is_some(), "starts over");
    }

    #[test]
    fn pauses_differ() {
        let is_tried_by = |ms| {
            let breaker = patient();
            breaker.enter(START).unwrap().refused(START);
            breaker.enter(after(START, ms)).is_some()
        };
        let tried = (0..1_000).filter(|_| is_tried_by(75)).count();
        assert!((300..700).contains(&tried), "{tried}");
    }

    #[test]
    fn one_caller_tries_at_a_time() {
        let breaker = patient();
        breaker.enter(START).unwrap().refused(START);
        let trial = breaker.enter(after(START, 100)).unwrap();
        assert!(breaker.enter(after(START, 100)).is_none());
        drop(trial);
        assert!(breaker.enter(after(START, 100)).is_some(), "a dropped trial blocks no other");
    }

    #[test]
    fn calls_made_together_fail_once() {
        let breaker = patient();
        let calls: Vec<_> = (0..10).map(|_| breaker.enter(START).unwrap()).collect();
        calls.into_iter().for_each(|permit| _ = permit.failed(START));
        assert!(breaker.enter(after(START, 100)).is_some());
    }
}
