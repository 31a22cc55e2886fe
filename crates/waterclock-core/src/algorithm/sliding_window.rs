//! Two epoch-aligned counters; the previous one counts by how much of it still overlaps.
//!
//! State is (end of the current window, previous count, current count). With `left = P − e` ns of
//! the current window to go, `prev·left/P + cur` is the estimate, and a cost n is admitted while
//! `prev·left + (cur + n)·P ≤ limit·P`.
//!
//! Bound: a half-open window of length D ≤ P meets at most two fixed windows; let it admit a before
//! the edge between them and b after it. If a = 0 or b = 0 that is at most `limit`. Else the last
//! admission lies e < P after the edge and needed `a·(P − e) + b·P ≤ limit·P`, as at least a counts
//! as previous: `a + b ≤ limit + a·e/P < 2·limit`.

use core::time::Duration;

use super::{Meter, NEVER, count_debit, count_up, epoch_window_end, measured, period, units};
use crate::LimitError;
use crate::arith::{div_ceil, div_floor, mul};
use crate::room::Room;
use crate::store::{State, View};

/// About `limit` in any window of `per`, in three words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    limit: u64,
    pub(crate) per: u64,
}

struct Windows {
    end: u64,
    prev: u64,
    cur: u64,
}

impl SlidingWindow {
    /// About `limit` in any window of `per`.
    pub fn new(limit: u64, per: Duration) -> Result<Self, LimitError> {
        Ok(Self { limit: units("limit", limit)?, per: period("per", per)? })
    }

    fn at(&self, words: &[u64], now: u64) -> Windows {
        match *words {
            [end, prev, cur] if now < end => Windows { end, prev, cur },
            [end, _, cur] if now < end + self.per => {
                Windows { end: end + self.per, prev: cur, cur: 0 }
            }
            _ => Windows { end: epoch_window_end(now, self.per), prev: 0, cur: 0 },
        }
    }

    /// Units that count in these windows, rounded up.
    #[inline]
    fn used_in(&self, w: &Windows, now: u64) -> u64 {
        // Mostly there was nothing in the window before, and then there is no need to divide.
        let before = match w.prev {
            0 => 0,
            prev => div_ceil(mul(prev, (w.end - now).min(self.per)), self.per),
        };
        before + w.cur
    }

    #[inline]
    fn wait_in(&self, w: &Windows, now: u64, units: u64) -> u64 {
        if units > self.limit {
            return NEVER;
        }
        let left = w.end - now;
        if let Some(room) = (self.limit - units).checked_sub(w.cur) {
            // The previous window's weight falls until it fits, at the latest at the edge.
            left.saturating_sub(self.left_for(room, w.prev))
        } else {
            // Only as the previous window can the current count make room.
            left + self.per - self.left_for(self.limit - units, w.cur)
        }
    }

    #[inline]
    fn reset_in(&self, w: &Windows, now: u64) -> u64 {
        match (w.prev, w.cur) {
            (0, 0) => 0,
            (_, 0) => w.end - now,
            _ => w.end - now + self.per,
        }
    }

    /// Time still to go in a window so that `prev` units of the one before leave `room` free.
    fn left_for(&self, room: u64, prev: u64) -> u64 {
        if room >= prev { self.per } else { div_floor(mul(room, self.per), prev) }
    }
}

measured!(SlidingWindow);

impl Meter for SlidingWindow {
    fn words(&self) -> usize {
        3
    }

    fn max_cost(&self) -> Option<u64> {
        Some(self.limit)
    }

    fn used(&self, view: View<'_>, now: u64) -> u64 {
        self.used_in(&self.at(view.words, now), now)
    }

    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        self.wait_in(&self.at(view.words, now), now, units)
    }

    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        self.reset_in(&self.at(view.words, now), now)
    }

    /// Which windows count is found out once.
    #[inline(always)]
    fn spend(&self, state: State<'_>, now: u64, cost: u64) -> (u64, Room) {
        let mut w = self.at(state.words, now);
        let wait = self.wait_in(&w, now, cost);
        if wait == 0 {
            w.cur = count_up(w.cur, cost, self.limit);
            state.words.copy_from_slice(&[w.end, w.prev, w.cur]);
        }
        let remaining = self.limit.saturating_sub(self.used_in(&w, now));
        let is_full = remaining == self.limit;
        let next_unit = if is_full { NEVER } else { self.wait_in(&w, now, remaining + 1) };
        (wait, Room::Counted { remaining, next_unit, reset: self.reset_in(&w, now) })
    }

    fn charge(&self, state: State<'_>, now: u64, units: u64) {
        let w = self.at(state.words, now);
        let cur = count_up(w.cur, units, self.limit);
        state.words.copy_from_slice(&[w.end, w.prev, cur]);
    }

    fn debit(&self, state: State<'_>, now: u64, units: u64) {
        let w = self.at(state.words, now);
        state.words.copy_from_slice(&[w.end, w.prev, count_debit(w.cur, units)]);
    }

    fn refund(&self, state: State<'_>, now: u64, units: u64) {
        let w = self.at(state.words, now);
        let cur = w.cur.saturating_sub(units);
        let prev = w.prev.saturating_sub(units.saturating_sub(w.cur));
        let fresh = cur == 0 && prev == 0;
        state.words.copy_from_slice(&if fresh { [0, 0, 0] } else { [w.end, prev, cur] });
    }

    fn give_back(&self, state: State<'_>, charged_at: u64, now: u64, units: u64) {
        let w = self.at(state.words, now);
        let (mut prev, mut cur) = (w.prev, w.cur);
        if charged_at + self.per >= w.end {
            cur = cur.saturating_sub(units);
        } else if charged_at + 2 * self.per >= w.end {
            prev = prev.saturating_sub(units);
        }
        let fresh = cur == 0 && prev == 0;
        state.words.copy_from_slice(&if fresh { [0, 0, 0] } else { [w.end, prev, cur] });
    }

    fn redate(&self, state: State<'_>, now: u64) {
        state.words[0] = state.words[0].min(epoch_window_end(now, self.per));
    }
}
