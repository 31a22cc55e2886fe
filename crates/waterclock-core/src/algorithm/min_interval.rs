//! No two events closer than `every`. Its own limit, and an attribute of any other.
//!
//! State is the instant from which the next event is welcome. A batch of any cost is one event.
//!
//! Bound (events): events lie at least `every` apart, so a half-open window of length D holds at
//! most ⌈D / every⌉.

use core::time::Duration;

use super::{Meter, period};
use crate::LimitError;
use crate::store::{State, View};

/// No two events closer than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinInterval {
    pub(crate) every: u64,
}

impl MinInterval {
    /// At least `every` between two events.
    pub fn new(every: Duration) -> Result<Self, LimitError> {
        Ok(Self { every: period("every", every)? })
    }

    /// The interval.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.every)
    }
}

impl Meter for MinInterval {
    fn words(&self) -> usize {
        1
    }

    fn max_cost(&self) -> Option<u64> {
        None
    }

    fn used(&self, view: View<'_>, now: u64) -> u64 {
        u64::from(now < view.words[0])
    }

    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        if units == 0 { 0 } else { view.words[0].saturating_sub(now) }
    }

    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        view.words[0].saturating_sub(now)
    }

    fn charge(&self, state: State<'_>, now: u64, _units: u64) {
        state.words[0] = now + self.every;
    }

    /// The event was counted when it was admitted, whatever it cost in the end.
    fn debit(&self, _state: State<'_>, _now: u64, _units: u64) {}

    fn refund(&self, _state: State<'_>, _now: u64, _units: u64) {}

    fn give_back(&self, _state: State<'_>, _charged_at: u64, _now: u64, _units: u64) {}

    fn redate(&self, state: State<'_>, now: u64) {
        state.words[0] = state.words[0].min(now + self.every);
    }
}
