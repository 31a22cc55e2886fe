//! Use it or lose it: unspent allowance evaporates at an even pace through each window.
//!
//! State is (end of the epoch-aligned window, spent). With e ns into the window, at least
//! `floor = ⌊limit·e/P⌋` counts as spent whether used or not.
//!
//! Bound: within one window [s, …) at most limit − floor(s) is admitted. A half-open window of
//! length D ≤ P that crosses an edge E starts at s ≥ E − D; before the edge it admits at most
//! limit − ⌊limit·(P − D)/P⌋ = ⌈limit·D/P⌉, after it at most limit: `limit + ⌈limit·D/P⌉` in all.

use core::time::Duration;

use super::{Meter, NEVER, count_debit, count_up, epoch_window_end, measured, period, units};
use crate::LimitError;
use crate::arith::{div_ceil, div_floor, mul};
use crate::room::Room;
use crate::store::{State, View};

/// `limit` per window of `per`, of which the part not used in time is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    limit: u64,
    pub(crate) per: u64,
}

impl Quota {
    /// `limit` per epoch-aligned window of `per`, use it or lose it.
    pub fn new(limit: u64, per: Duration) -> Result<Self, LimitError> {
        Ok(Self { limit: units("limit", limit)?, per: period("per", per)? })
    }

    /// What is lost at `now` for a key that used nothing.
    fn floor(&self, now: u64) -> u64 {
        div_floor(mul(self.limit, now % self.per), self.per)
    }

    fn spent(&self, words: &[u64], now: u64) -> u64 {
        match *words {
            [end, spent] if now < end => spent,
            _ => 0,
        }
    }

    /// Takes over what was really spent, not what was lost, from a quota of another period.
    pub(crate) fn migrate(&self, old: &Self, memory: &[u64], words: &mut [u64], now: u64) {
        let spent = old.spent(memory, now);
        if spent > old.floor(now) {
            words.copy_from_slice(&[epoch_window_end(now, self.per), spent]);
        }
    }
}

measured!(Quota);

impl Meter for Quota {
    fn words(&self) -> usize {
        2
    }

    fn max_cost(&self) -> Option<u64> {
        Some(self.limit)
    }

    fn used(&self, view: View<'_>, now: u64) -> u64 {
        self.spent(view.words, now).max(self.floor(now))
    }

    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        if units > self.limit {
            NEVER
        } else if self.used(view, now) + units <= self.limit {
            0
        } else {
            epoch_window_end(now, self.per) - now
        }
    }

    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        let spent = self.spent(view.words, now);
        if spent <= self.floor(now) {
            return 0;
        }
        // Fresh again where the floor catches up with what was spent, at the latest at the edge.
        let caught_up = div_ceil(mul(spent, self.per), self.limit).min(self.per);
        caught_up - now % self.per
    }

    fn charge(&self, state: State<'_>, now: u64, units: u64) {
        let spent = count_up(self.used(state.view(), now), units, self.limit);
        state.words.copy_from_slice(&[epoch_window_end(now, self.per), spent]);
    }

    /// With one division: the window that was charged last mostly lasts, and when the key will be fresh is computed when
    /// asked for.
    #[inline(always)]
    fn spend(&self, state: State<'_>, now: u64, cost: u64) -> (u64, Room) {
        let Self { limit, per } = *self;
        let [end, count] = state.words else { return (NEVER, Room::NONE) };
        let left = end.saturating_sub(now);
        let mut spent = if left == 0 { 0 } else { *count };
        let into = if (1..=per).contains(&left) { per - left } else { now % per };
        let floor = div_floor(mul(limit, into), per);
        let wait = match spent.max(floor).saturating_add(cost) {
            _ if cost > limit => NEVER,
            after if after <= limit => {
                spent = after;
                (*end, *count) = (now - into + per, after);
                0
            }
            _ => per - into,
        };
        if spent > floor {
            return (wait, Room::Losing { spent, per, into });
        }
        let next_unit = if floor == 0 { NEVER } else { per - into };
        (wait, Room::Counted { remaining: limit - floor, next_unit, reset: 0 })
    }

    fn debit(&self, state: State<'_>, now: u64, units: u64) {
        let spent = count_debit(self.used(state.view(), now), units);
        state.words.copy_from_slice(&[epoch_window_end(now, self.per), spent]);
    }

    fn refund(&self, state: State<'_>, now: u64, units: u64) {
        let spent = self.spent(state.words, now).saturating_sub(units);
        let end = state.words[0];
        let fresh = spent <= self.floor(now);
        state.words.copy_from_slice(&if fresh { [0, 0] } else { [end, spent] });
    }

    fn give_back(&self, state: State<'_>, charged_at: u64, now: u64, units: u64) {
        if epoch_window_end(charged_at, self.per) == state.words[0] {
            self.refund(state, now, units);
        }
    }

    fn redate(&self, state: State<'_>, now: u64) {
        state.words[0] = state.words[0].min(epoch_window_end(now, self.per));
    }
}
