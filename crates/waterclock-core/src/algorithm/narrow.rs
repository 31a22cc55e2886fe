//! A gcra whose state is one word, reduced to the numbers that a check needs.

use core::num::NonZeroU64;

use super::NEVER;
use crate::room::{Left, Room, div_ceil_small};

/// The numbers of a [`Gcra`](crate::Gcra) whose arithmetic fits one word; overdraft never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Narrow {
    pub(super) step: NonZeroU64,
    pub(super) scale: NonZeroU64,
    pub(super) depth: u64,
    pub(super) capacity: u64,
}

impl Narrow {
    #[inline(always)]
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// What the word is after a cost of more than zero; `None` if that is refused.
    #[inline(always)]
    pub(crate) fn after(&self, tat: u64, now: u64, cost: u64) -> Option<u64> {
        let spent = cost.saturating_mul(self.step.get());
        // More than the capacity is deeper than the depth.
        let room = self.depth.checked_sub(spent)?;
        let at = now * self.scale.get();
        let before = at.max(tat);
        // An instant and the depth fit a word together: see `ONE_WORD_SCALE`.
        (before - at <= room).then(|| before + spent)
    }

    /// Wait, charge and room in one: what is left, or how long `cost` must wait and what is left then. It is what most
    /// checks are.
    #[inline(always)]
    pub(crate) fn spend(&self, tat: &mut u64, now: u64, cost: u64) -> Result<Room, (u64, Room)> {
        let Self { step, scale, .. } = *self;
        let at = now * scale.get();
        if cost == 0 {
            return Ok(Room::Draining { level: tat.saturating_sub(at), step, scale });
        }
        if let Some(after) = self.after(*tat, now, cost) {
            *tat = after;
            return Ok(Room::Draining { level: after - at, step, scale });
        }
        let debt = tat.saturating_sub(at);
        let wait = self.wait(debt.saturating_add(cost.saturating_mul(step.get())), cost);
        Err((wait, Room::Draining { level: debt, step, scale }))
    }

    /// How long a cost that would bring the debt here, deeper than the depth, must wait.
    #[inline]
    fn wait(&self, after: u64, cost: u64) -> u64 {
        if cost > self.capacity {
            return NEVER;
        }
        // However deep the debt: it ends.
        div_ceil_small(after - self.depth, self.scale).min(NEVER - 1)
    }

    /// How long until a key is fresh, as [`Limit::reset`](crate::Limit) says.
    #[inline]
    pub(crate) fn reset(&self, tat: u64, now: u64) -> u64 {
        div_ceil_small(tat.saturating_sub(now * self.scale.get()), self.scale)
    }

    /// How long until at most half of the capacity is used, as [`Limit::half_reset`](crate::Limit) says.
    #[inline]
    pub(crate) fn half_reset(&self, tat: u64, now: u64) -> u64 {
        let debt = tat.saturating_sub(now * self.scale.get());
        let half = self.capacity.div_ceil(2).saturating_mul(self.step.get());
        let over = debt.saturating_add(half).saturating_sub(self.depth);
        // Of a capacity of one, half is all.
        div_ceil_small(over.min(debt), self.scale)
    }

    /// The numbers of a key that was just charged, and so owes something, but no more than its depth. They are those of
    /// [`Room::Draining`], with one division.
    #[inline(always)]
    pub(crate) fn left(&self, tat: u64, now: u64) -> Left {
        let Self { step, scale, capacity, .. } = *self;
        let level = tat.saturating_sub(now * scale.get());
        // Units that are owed in whole, but for the last, which may be owed in part.
        let whole = level.saturating_sub(1) / step;
        Left {
            remaining: capacity.saturating_sub(whole + 1),
            next_unit: div_ceil_small(level - whole * step.get(), scale),
            reset: div_ceil_small(level, scale),
        }
    }
}
