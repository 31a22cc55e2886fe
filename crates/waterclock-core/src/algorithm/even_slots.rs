//! Time is cut into epoch-aligned half-slots of P/(2·limit); at most one event in each even one.
//!
//! State is the end of the half-slot that was taken last. A batch of any cost is one event.
//!
//! Bound (events): with slots of length S = P/limit, a half-open window [a, a + D) meets the even
//! half-slot [j·S, j·S + S/2) only if a/S − 1/2 < j < (a + D)/S: an open interval of length
//! D/S + 1/2, which holds at most `⌈limit·D/P + 1/2⌉` integers.

use core::time::Duration;

use super::{Meter, NEVER, period, units};
use crate::arith::{div_ceil, div_rem, mul};
use crate::room::Room;
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

    /// Which half-slot of its period holds `now`, and how much of it is left, in 1/halves ns. Their number is even: parity
    /// is the epoch's.
    fn half_of(&self, now: u64) -> (u64, u64) {
        let (half, into) = div_rem(mul(now % self.per, self.halves), self.per);
        (half, self.per - into)
    }

    /// The end of the half-slot that holds `now`: the first instant of the next one.
    fn half_end(&self, now: u64) -> u64 {
        now + div_ceil(self.half_of(now).1.into(), self.halves)
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
        let even = if self.half_of(free).0.is_multiple_of(2) { free } else { self.half_end(free) };
        even - now
    }

    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        view.words[0].saturating_sub(now)
    }

    fn charge(&self, state: State<'_>, now: u64, _units: u64) {
        state.words[0] = self.half_end(now);
    }

    /// Where the half-slots lie is found out once.
    #[inline(always)]
    fn spend(&self, state: State<'_>, now: u64, _cost: u64) -> (u64, Room) {
        let [taken] = state.words else { return (NEVER, Room::NONE) };
        let free = now.max(*taken);
        let (half, left) = self.half_of(free);
        let is_even = half.is_multiple_of(2);
        // A period is at most 100 years, of which a word holds five.
        let ends = |more: u64| free + div_ceil((left + more * self.per).into(), self.halves);
        if free == now && is_even {
            // The next even half-slot is the one after the next.
            *taken = ends(0);
            return (
                0,
                Room::Counted { remaining: 0, next_unit: ends(1) - now, reset: *taken - now },
            );
        }
        let wait = if is_even { free - now } else { ends(0) - now };
        let reset = taken.saturating_sub(now);
        // What is taken is closed, and so is an odd half-slot.
        (wait, Room::Counted { remaining: 0, next_unit: wait, reset })
    }

    /// The event was counted when it was admitted, whatever it cost in the end.
    fn debit(&self, _state: State<'_>, _now: u64, _units: u64) {}

    fn refund(&self, _state: State<'_>, _now: u64, _units: u64) {}

    fn give_back(&self, _state: State<'_>, _charged_at: u64, _now: u64, _units: u64) {}

    fn redate(&self, state: State<'_>, now: u64) {
        state.words[0] = state.words[0].min(self.half_end(now));
    }
}
