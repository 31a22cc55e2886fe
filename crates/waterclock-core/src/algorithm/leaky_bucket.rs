//! A leaky bucket as a meter: `drip` units leave at once, every `every`.
//!
//! State is (level, anchor): the level as of the last drip instant. No background dripping.
//!
//! Bound: over a half-open window [s, s + D) the level starts at ≥ 0, ends at ≤ capacity, rises by
//! every admitted cost and falls only at drip instants inside (s, s + D). Those lie `every` apart
//! while the bucket is not empty (and an empty bucket does not fall), so there are at most
//! ⌈D / every⌉ of them: the admitted cost is at most `capacity + drip·⌈D / every⌉`.

use core::time::Duration;

use super::gcra::{DEBIT_DEPTH_NS, MAX_DEPTH_NS};
use super::{Algorithm, Meter, NEVER, in_steps, period, units};
use crate::arith::mul;
use crate::room::Room;
use crate::store::{State, View};
use crate::{Gcra, LimitError, MAX_UNITS};

/// Room for `capacity`; `drip` units leave every `every`, counted from when it was last empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    capacity: u64,
    drip: u64,
    every: u64,
    overdraft: bool,
}

impl LeakyBucket {
    /// A bucket for `capacity` units from which `drip` leave every `every`.
    pub fn new(capacity: u64, drip: u64, every: Duration) -> Result<Self, LimitError> {
        let capacity = units("capacity", capacity)?;
        let drip = units("drip", drip)?;
        let every = period("every", every)?;
        if mul(capacity.div_ceil(drip), every) > u128::from(MAX_DEPTH_NS) {
            return Err(LimitError::SlowRefill);
        }
        Ok(Self { capacity, drip, every, overdraft: false })
    }

    /// Admit any cost whenever one unit would pass, and let the key go into debt.
    #[must_use]
    pub fn with_overdraft(mut self, overdraft: bool) -> Self {
        self.overdraft = overdraft;
        self
    }

    /// The capacity.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How many units leave per drip.
    #[must_use]
    pub fn drip(&self) -> u64 {
        self.drip
    }

    /// The time between two drips.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.every)
    }

    /// Whether any cost is admitted whenever one unit would pass.
    #[must_use]
    pub fn overdraft(&self) -> bool {
        self.overdraft
    }

    /// Whether both drip the same amount at the same interval.
    pub(crate) fn drips_like(&self, other: &Self) -> bool {
        (self.drip, self.every) == (other.drip, other.every)
    }

    /// Time for `units` to leave, counted from the anchor.
    fn drains(&self, units: u64) -> u64 {
        u64::try_from(mul(units.div_ceil(self.drip), self.every)).unwrap_or(NEVER - 1)
    }

    /// How long the deepest debt takes to return: as for gcra, which a bucket that drips one by one is.
    fn deepest(&self) -> u64 {
        if self.overdraft { MAX_DEPTH_NS } else { self.drains(self.capacity).max(DEBIT_DEPTH_NS) }
    }

    /// (level, anchor) as of now.
    pub(crate) fn at(&self, words: &[u64], now: u64) -> (u64, u64) {
        let &[level, anchor] = words else { return (0, now) };
        let since = now.saturating_sub(anchor);
        // Mostly none, and then there is no need to divide.
        let drips = if since < self.every { 0 } else { since / self.every };
        match level.saturating_sub(drips.saturating_mul(self.drip)) {
            0 => (0, now),
            left => (left, anchor + drips * self.every),
        }
    }
}

/// One by one, a leaky bucket is GCRA with T = `every`: one engine serves both.
impl From<LeakyBucket> for Algorithm {
    fn from(bucket: LeakyBucket) -> Self {
        if bucket.drip > 1 {
            return Self::LeakyBucket(bucket);
        }
        let gcra = Gcra::leaky_bucket(bucket.capacity, bucket.every);
        Self::Gcra(gcra.with_overdraft(bucket.overdraft))
    }
}

impl Meter for LeakyBucket {
    fn words(&self) -> usize {
        2
    }

    fn max_cost(&self) -> Option<u64> {
        Some(self.capacity)
    }

    fn used(&self, view: View<'_>, now: u64) -> u64 {
        self.at(view.words, now).0
    }

    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        let (level, anchor) = self.at(view.words, now);
        if units > self.capacity {
            return NEVER;
        }
        match level.saturating_add(units).saturating_sub(self.capacity) {
            0 => 0,
            over => self.drains(over).saturating_sub(now.saturating_sub(anchor)),
        }
    }

    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        match self.at(view.words, now) {
            (0, _) => 0,
            (level, anchor) => self.drains(level).saturating_sub(now.saturating_sub(anchor)),
        }
    }

    fn charge(&self, state: State<'_>, now: u64, units: u64) {
        let (level, anchor) = self.at(state.words, now);
        // Debts are bounded.
        let drips = (self.deepest() + now.saturating_sub(anchor)) / self.every;
        let most = drips.saturating_mul(self.drip).min(MAX_UNITS);
        state.words.copy_from_slice(&[level.saturating_add(units).min(most), anchor]);
    }

    /// As few divisions as there can be: none until the next drip, and one for when the key will be fresh.
    #[inline(always)]
    fn spend(&self, state: State<'_>, now: u64, cost: u64) -> (u64, Room) {
        let Self { capacity, every, overdraft, .. } = *self;
        // Debts have a bound of their own.
        if overdraft {
            return in_steps(self, state, now, cost);
        }
        let (level, anchor) = self.at(state.words, now);
        let since = now.saturating_sub(anchor);
        let (wait, level) = match level.saturating_add(cost) {
            _ if cost > capacity => (NEVER, level),
            after if after <= capacity => {
                state.words.copy_from_slice(&[after, anchor]);
                (0, after)
            }
            after => (self.drains(after - capacity).saturating_sub(since), level),
        };
        let next_unit = match level {
            0 => NEVER,
            _ if level <= capacity => every.saturating_sub(since),
            _ => self.drains(level + 1 - capacity).saturating_sub(since),
        };
        let reset = if level == 0 { 0 } else { self.drains(level).saturating_sub(since) };
        let remaining = capacity.saturating_sub(level);
        (wait, Room::Counted { remaining, next_unit, reset })
    }

    /// What fits and what does not are one level.
    fn debit(&self, state: State<'_>, now: u64, units: u64) {
        self.charge(state, now, units);
    }

    fn refund(&self, state: State<'_>, now: u64, units: u64) {
        let (level, anchor) = self.at(state.words, now);
        let left = level.saturating_sub(units);
        state.words.copy_from_slice(&if left == 0 { [0, 0] } else { [left, anchor] });
    }

    fn redate(&self, state: State<'_>, now: u64) {
        state.words[1] = state.words[1].min(now);
    }

    fn need(&self, cost: u64) -> u64 {
        if self.overdraft { cost.min(1) } else { cost }
    }
}
