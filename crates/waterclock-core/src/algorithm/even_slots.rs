//! Time is cut into epoch-aligned half-slots of P/(2·limit); at most one event in each even one.
//!
//! State is the end of the half-slot that was taken last. A batch of any cost is one event.
//!
//! Bound (events): with slots of length S = P/limit, a half-open window [a, a + D) meets the even
//! half-slot [j·S, j·S + S/2) only if a/S − 1/2 < j < (a + D)/S: an open interval of length
//! D/S + 1/2, which holds at most `⌈limit·D/P + 1/2⌉` integers.

use core::time::Duration;

use super::{Meter, period, units};
use crate::arith::{div_ceil, div_floor, mul};
use crate::store::{State, View};
use crate::{LimitError, Timestamp};

/// At most one event in each of `limit` evenly spread slots per period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvenSlots {
    /// Half-slots per period: 2·limit.
    halves: u64,
    per: u64,
}

impl EvenSlots {
    /// `limit` evenly spread slots in each `per`; half a slot must last a nanosecond or more.
    pub fn new(limit: u64, per: Duration) -> Result<Self, LimitError> {
        let (halves, per) = (2 * units("limit", limit)?, period("per", per)?);
        if halves > per { Err(LimitError::ShortSlot) } else { Ok(Self { halves, per }) }
    }

    /// How many slots there are in a period.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.halves / 2
    }

    /// The period.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.per)
    }

    /// The state of a key whose last event was at `now`: the end of that half-slot.
    #[must_use]
    pub fn taken_until(&self, now: Timestamp) -> u64 {
        self.half_end(now.as_nanos())
    }

    /// Which half-slot of its period holds `now`. Their number is even: parity is the epoch's.
    fn half(&self, now: u64) -> u64 {
        div_floor(mul(now % self.per, self.halves), self.per)
    }

    /// The end of the half-slot that holds `now`: the first instant of the next one.
    fn half_end(&self, now: u64) -> u64 {
        now - now % self.per + div_ceil(mul(self.half(now) + 1, self.per), self.halves)
    }
}

impl Meter for EvenSlots {
    fn words(&self) -> usize {
        1
    }

    fn max_cost(&self) -> Option<u64> {
        None
    }

    fn used(&self, view: View<'_>, now: u64) -> u64 {
        u64::from(self.wait(view, now, 1) > 0)
    }

    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        if units == 0 {
            return 0;
        }
        let free = now.max(view.words[0]);
        let even = if self.half(free).is_multiple_of(2) { free } else { self.half_end(free) };
        even - now
    }

    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        view.words[0].saturating_sub(now)
    }

    fn charge(&self, state: State<'_>, now: u64, _units: u64) {
        state.words[0] = self.half_end(now);
    }

    /// The event was counted when it was admitted, whatever it cost in the end.
    fn debit(&self, _state: State<'_>, _now: u64, _units: u64) {}

    fn refund(&self, _state: State<'_>, _now: u64, _units: u64) {}

    fn give_back(&self, _state: State<'_>, _charged_at: u64, _now: u64, _units: u64) {}

    fn redate(&self, state: State<'_>, now: u64) {
        state.words[0] = state.words[0].min(self.half_end(now));
    }
}
