//! What the clients of one round saw, and what was done to the servers meanwhile.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use waterclock::{Clock, MonotonicClock};

use crate::caller::Face;

/// An answer to one check or wait. Instants are counted from the start of the round.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) policy: &'static str,
    pub(crate) key: String,
    pub(crate) invoked: Duration,
    pub(crate) returned: Duration,
    pub(crate) granted: u64,
    pub(crate) source: String,
}

/// How long an answer of any kind took; the longest is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Took {
    pub(crate) lasted: Duration,
    /// Since the start of the round.
    pub(crate) invoked: Duration,
    pub(crate) what: &'static str,
    pub(crate) face: Face,
}

/// From one instant to another.
pub(crate) type Span = (Duration, Duration);

#[derive(Debug, Default)]
struct Inner {
    calls: Vec<Call>,
    took: Vec<Took>,
    losses: Vec<Span>,
    complaints: Vec<String>,
}

pub(crate) struct History {
    clock: MonotonicClock,
    start: u64,
    /// How long a call may take before it counts as unanswered.
    pub(crate) patience: Duration,
    inner: Mutex<Inner>,
}

impl History {
    pub(crate) fn new(patience: Duration) -> Self {
        let clock = MonotonicClock::default();
        let start = clock.now().as_nanos();
        Self { clock, start, patience, inner: Mutex::default() }
    }

    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now().as_nanos() - self.start)
    }

    pub(crate) fn admit(&self, call: Call) {
        self.inner().calls.push(call);
    }

    pub(crate) fn answered(&self, took: Took) {
        self.inner().took.push(took);
    }

    /// Redis lost its state in this time.
    pub(crate) fn lost(&self, span: Span) {
        self.inner().losses.push(span);
    }

    pub(crate) fn complain(&self, complaint: &impl Display) {
        let mut inner = self.inner();
        // Where one call breaks, hundreds may.
        if inner.complaints.len() < 20 {
            inner.complaints.push(complaint.to_string());
        }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.inner().calls.clone()
    }

    pub(crate) fn took(&self) -> Vec<Took> {
        self.inner().took.clone()
    }

    pub(crate) fn losses(&self) -> Vec<Span> {
        self.inner().losses.clone()
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        self.inner().complaints.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics with it")
    }
}
