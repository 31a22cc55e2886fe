//! The generic cell rate algorithm, which is also the token bucket.
//!
//! State is the theoretical arrival time `tat`; `debt = max(tat − now, 0)` is what has been used,
//! expressed as time, with `T = per / limit` for each unit.
//!
//! Bound: a charge of n at time a needs `debt(a) + n·T ≤ C·T`, so after it the debt is at most
//! C·T. Over a half-open window [s, s + D) debt starts at ≥ 0, rises by n·T with every admission
//! and falls by at most D in all; it ends at ≤ C·T. So the admitted cost is at most
//! `C + D/T = capacity + rate·D`. With overdraft the last admission may exceed it by its cost − 1.
//!
//! `T` is a ratio: it is kept as `step / scale` nanoseconds in lowest terms and `tat` is counted in
//! 1/scale ns, so nothing is ever rounded before it is shown.

use core::time::Duration;

use super::{Meter, NEVER, State, View, period, units};
use crate::arith::{div_ceil, gcd, mul};
use crate::{LimitError, MAX_UNITS};

/// A bucket that refills all the time must be full again within 400 years.
pub(super) const MAX_DEPTH_NS: u64 = 400 * 31_557_600_000_000_000;
/// With at most thirds of a nanosecond and 40 years of debt, `tat` fits one word until 2116.
const ONE_WORD_SCALE: u64 = 3;
const ONE_WORD_DEPTH_NS: u64 = MAX_DEPTH_NS / 10;

/// `limit` units per period, with room for `capacity` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    capacity: u64,
    /// Nanoseconds × scale that one unit takes to return.
    step: u64,
    scale: u64,
    /// capacity · step, what a full bucket's worth of debt is.
    depth: u128,
    overdraft: bool,
    one_word: bool,
}

impl Gcra {
    /// `limit` units per `per`, and as many at once.
    pub fn new(limit: u64, per: Duration) -> Result<Self, LimitError> {
        let limit = units("limit", limit)?;
        Ok(Self::from_ratio(limit, period("per", per)?).capacity(limit))
    }

    /// For periods known to be valid; a limit of zero admits nothing.
    pub(crate) fn infallible(limit: u64, per_ns: u64) -> Self {
        let limit = limit.min(MAX_UNITS);
        Self::from_ratio(limit.max(1), per_ns).capacity(limit)
    }

    fn from_ratio(limit: u64, per_ns: u64) -> Self {
        let common = gcd(limit, per_ns);
        Self {
            capacity: 0,
            step: per_ns / common,
            scale: limit / common,
            depth: 0,
            overdraft: false,
            one_word: true,
        }
    }

    /// How much may be used at once, whatever the rate. Clamped to what refills within 400 years;
    /// [`Gcra::holds`] tells what it came to. A capacity of zero admits nothing.
    #[must_use]
    pub fn capacity(mut self, capacity: u64) -> Self {
        let most = mul(MAX_DEPTH_NS, self.scale) / u128::from(self.step);
        self.capacity = capacity.min(MAX_UNITS).min(u64::try_from(most).unwrap_or(u64::MAX));
        self.depth = mul(self.capacity, self.step);
        self.fit_word()
    }

    /// Debt without a bound takes two words.
    fn fit_word(mut self) -> Self {
        let shallow = self.depth <= mul(ONE_WORD_DEPTH_NS, self.scale);
        self.one_word = shallow && self.scale <= ONE_WORD_SCALE && !self.overdraft;
        self
    }

    /// Admit any cost whenever one unit would pass, and let the key go into debt.
    #[must_use]
    pub fn overdraft(mut self, overdraft: bool) -> Self {
        self.overdraft = overdraft;
        self.fit_word()
    }

    /// The capacity.
    #[must_use]
    pub fn holds(&self) -> u64 {
        self.capacity
    }

    fn now(&self, now: u64) -> u128 {
        mul(now, self.scale)
    }

    #[inline]
    fn tat(&self, words: &[u64]) -> u128 {
        match *words {
            [word] => u128::from(word),
            [low, high, ..] => u128::from(high) << 64 | u128::from(low),
            [] => 0,
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a u128 is split into its two words")]
    fn save(&self, words: &mut [u64], tat: u128) {
        match words {
            [word] => *word = u64::try_from(tat).unwrap_or(u64::MAX),
            [low, high, ..] => (*low, *high) = (tat as u64, (tat >> 64) as u64),
            [] => {}
        }
    }

    #[inline]
    fn debt(&self, view: View<'_>, now: u64) -> u128 {
        self.tat(view.words).saturating_sub(self.now(now))
    }
}

impl Meter for Gcra {
    fn words(&self) -> usize {
        if self.one_word { 1 } else { 2 }
    }

    #[inline]
    fn limit(&self) -> Option<u64> {
        Some(self.capacity)
    }

    #[inline]
    fn used(&self, view: View<'_>, now: u64) -> u64 {
        div_ceil(self.debt(view, now), self.step)
    }

    #[inline]
    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        if units > self.capacity {
            return NEVER;
        }
        let after = self.debt(view, now).saturating_add(mul(units, self.step));
        if after <= self.depth { 0 } else { div_ceil(after - self.depth, self.scale) }
    }

    #[inline]
    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        div_ceil(self.debt(view, now), self.scale)
    }

    #[inline]
    fn charge(&self, state: State<'_>, now: u64, units: u64) {
        let tat = self.tat(state.words).max(self.now(now));
        self.save(state.words, tat.saturating_add(mul(units, self.step)));
    }

    fn refund(&self, state: State<'_>, now: u64, units: u64) {
        let tat = self.tat(state.words).saturating_sub(mul(units, self.step));
        self.save(state.words, if tat <= self.now(now) { 0 } else { tat });
    }

    #[inline]
    fn need(&self, cost: u64) -> u64 {
        if self.overdraft { cost.min(1) } else { cost }
    }
}
