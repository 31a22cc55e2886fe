//! The generic cell rate algorithm, which is also the token bucket.
//!
//! State is the theoretical arrival time `tat`; `debt = max(tat − now, 0)` is what has been used,
//! expressed as time, with `T = per / limit` for each unit.
//!
//! Bound: a charge of n at time a needs `debt(a) + n·T ≤ C·T`, so after it the debt is at most
//! C·T. Over a half-open window [s, s + D) debt starts at ≥ 0, rises by n·T with every admission
//! and falls by at most D in all; it ends at ≤ C·T. So the admitted cost is at most
//! `C + D/T = capacity + rate·D`. With overdraft the last admission may exceed it by its cost − 1.
//! Debits only add to the debt, so they admit nothing more.
//!
//! `T` is a ratio: it is kept as `step / scale` nanoseconds in lowest terms and `tat` is counted in
//! 1/scale ns, so nothing is ever rounded before it is shown.

use core::num::NonZeroU64;
use core::time::Duration;

use super::narrow::Narrow;
use super::{Meter, NEVER, counted, period, units};
use crate::arith::{div_ceil, div_floor, lowest_terms, mul};
use crate::room::Room;
use crate::store::{State, View};
use crate::{Factor, LimitError, MAX_UNITS};

const YEAR_NS: u64 = 31_557_600_000_000_000;
/// A bucket that refills all the time must be full again within 100 years, and no debt grows
/// deeper: so an instant and any debt together stay below 2^53 microseconds, which Lua can add.
pub(super) const MAX_DEPTH_NS: u64 = 100 * YEAR_NS;
/// With at most thirds of a nanosecond and 40 years of debt, `tat` fits one word until 2116.
const ONE_WORD_SCALE: u64 = 3;
const ONE_WORD_DEPTH_NS: u64 = 40 * YEAR_NS;
/// How deep a debit may reach without overdraft, unless the bucket itself is deeper. It is
/// what one word holds, so that a debt is the same in one word and in two.
pub(super) const DEBIT_DEPTH_NS: u64 = ONE_WORD_DEPTH_NS;

/// `limit` units per period, with room for `capacity` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    capacity: u64,
    /// What the limit and the period were divided by to get the two below; 0 if it was defined as a leaky bucket
    /// that drips one by one. One more `bool` would cost decisions two instructions: the compiler tells algorithms
    /// apart by the values that `one_word` cannot have.
    common: u64,
    /// Nanoseconds × scale that one unit takes to return.
    step: NonZeroU64,
    scale: NonZeroU64,
    /// capacity · step, what a full bucket's worth of debt is.
    depth: u128,
    /// The same, where `one_word` says that it fits.
    narrow_depth: u64,
    overdraft: bool,
    one_word: bool,
}

impl Gcra {
    /// `limit` units per `per`, and as many at once.
    pub fn new(limit: u64, per: Duration) -> Result<Self, LimitError> {
        let limit = units("limit", limit)?;
        Ok(Self::from_ratio(limit, period("per", per)?).with_capacity(limit))
    }

    /// For periods known to be valid; a limit of zero admits nothing.
    pub(crate) fn infallible(limit: u64, per_ns: u64) -> Self {
        let limit = limit.min(MAX_UNITS);
        Self::from_ratio(limit.max(1), per_ns).with_capacity(limit)
    }

    fn from_ratio(limit: u64, per_ns: u64) -> Self {
        let (limit, per_ns, common) = lowest_terms(limit, per_ns);
        // Neither is zero, and the type says so: a division that cannot fail can be left out.
        let nonzero = |n: u64| NonZeroU64::new(n).unwrap_or(NonZeroU64::MIN);
        Self {
            capacity: 0,
            common,
            step: nonzero(per_ns),
            scale: nonzero(limit),
            depth: 0,
            narrow_depth: 0,
            overdraft: false,
            one_word: true,
        }
    }

    /// A bucket for `capacity` units that loses one every `every_ns`.
    pub(super) fn leaky_bucket(capacity: u64, every_ns: u64) -> Self {
        let gcra = Self { common: 0, ..Self::from_ratio(1, every_ns) };
        gcra.with_capacity(capacity)
    }

    /// The period multiplied by the factor; the limit stays. So the rate is rounded once per period and not
    /// once per unit, of which there may be a thousand in a microsecond.
    pub(crate) fn scaled(&self, factor: Factor) -> Result<Self, LimitError> {
        let per = factor.interval(self.period()).ok_or(LimitError::LongPeriod("per"))?;
        let capacity = factor.units(self.capacity).ok_or(LimitError::ManyUnits("capacity"))?;
        let mut scaled = Self::new(self.limit(), per)?;
        if self.is_leaky_bucket() {
            scaled.common = 0;
        }
        let scaled = scaled.with_capacity(capacity).with_overdraft(self.overdraft);
        if scaled.capacity < capacity { Err(LimitError::SlowRefill) } else { Ok(scaled) }
    }

    /// How much may be used at once, whatever the rate. Clamped to what refills within 100 years;
    /// [`Gcra::capacity`] tells what it came to. A capacity of zero admits nothing.
    #[must_use]
    pub fn with_capacity(mut self, capacity: u64) -> Self {
        let most = mul(MAX_DEPTH_NS, self.scale.get()) / u128::from(self.step.get());
        self.capacity = capacity.min(MAX_UNITS).min(u64::try_from(most).unwrap_or(u64::MAX));
        self.depth = mul(self.capacity, self.step.get());
        self.fit_word()
    }

    /// Debt without a bound takes two words.
    fn fit_word(mut self) -> Self {
        let shallow = self.depth <= mul(ONE_WORD_DEPTH_NS, self.scale.get());
        self.one_word = shallow && self.scale.get() <= ONE_WORD_SCALE && !self.overdraft;
        self.narrow_depth = u64::try_from(self.depth).unwrap_or(u64::MAX);
        self
    }

    /// Admit any cost whenever one unit would pass, and let the key go into debt.
    #[must_use]
    pub fn with_overdraft(mut self, overdraft: bool) -> Self {
        self.overdraft = overdraft;
        self.fit_word()
    }

    /// How many units there are per period. A limit of zero is kept as 1 with a capacity of zero.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.scale.get().saturating_mul(self.common.max(1))
    }

    /// The period.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.step.get().saturating_mul(self.common.max(1)))
    }

    /// Whether it was defined as a [`LeakyBucket`](crate::LeakyBucket) that drips one by one, which decides
    /// the same.
    #[must_use]
    pub fn is_leaky_bucket(&self) -> bool {
        self.common == 0
    }

    /// The capacity.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// What one unit takes to return, as a ratio in lowest terms: nanoseconds × scale, and scale.
    #[must_use]
    pub fn unit_ns(&self) -> (u64, u64) {
        (self.step.get(), self.scale.get())
    }

    /// What one unit takes to return in ticks of `tick_ns`, as a ratio in lowest terms: ticks × scale, and
    /// scale. `None` where the scale does not fit.
    #[must_use]
    pub fn unit_ticks(&self, tick_ns: u64) -> Option<(u64, u64)> {
        let (step, tick, _) = lowest_terms(self.step.get(), tick_ns.max(1));
        Some((step, self.scale.get().checked_mul(tick)?))
    }

    /// Whether any cost is admitted whenever one unit would pass.
    #[must_use]
    pub fn overdraft(&self) -> bool {
        self.overdraft
    }

    /// The instant at which a key is full again, in 1/scale ns; for stores that keep it elsewhere.
    #[must_use]
    pub fn full_at(&self, words: &[u64]) -> u128 {
        if self.one_word { words[0].into() } else { u128::load(words) }
    }

    /// The reverse of [`Gcra::full_at`].
    pub fn set_full_at(&self, tat: u128, words: &mut [u64]) {
        if self.one_word {
            words[0] = u64::try_from(tat).unwrap_or(u64::MAX);
        } else {
            tat.save(words);
        }
    }

    /// The latest instant at which a key may be full again after a change of numbers: exhausted, and
    /// what it owed beyond the capacity it had under `old`.
    pub(crate) fn full_at_most(&self, old: &Self, words: &[u64], now: u64) -> u128 {
        let debt = old.full_at(words).saturating_sub(u128::instant(now, old.scale.get()));
        let deepest = self.depth + debt.saturating_sub(old.depth);
        u128::instant(now, self.scale.get()) + deepest.min(self.wide().deepest())
    }

    /// The numbers of a check, where all arithmetic fits one word.
    pub(crate) fn narrowed(&self) -> Option<Narrow> {
        let Self { capacity, step, scale, narrow_depth: depth, .. } = *self;
        self.one_word.then_some(Narrow { capacity, step, scale, depth })
    }

    /// With all arithmetic in one word, where that is known to be enough.
    #[inline]
    pub(crate) fn narrow(&self) -> Option<Cells<'_, u64>> {
        // Nothing is lost: `fit_word` saw that the depth fits.
        self.one_word.then_some(Cells { gcra: self, depth: self.narrow_depth })
    }

    #[inline]
    pub(crate) fn wide(&self) -> Cells<'_, u128> {
        Cells { gcra: self, depth: self.depth }
    }
}

/// The algorithm over integers of one width.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a, W> {
    gcra: &'a Gcra,
    depth: W,
}

/// An integer wide enough for `tat` in 1/scale ns. Saturates: too much debt stays too much.
pub(crate) trait Width: Copy + Ord {
    /// An instant in 1/scale ns, which always fits.
    fn instant(now: u64, scale: u64) -> Self;
    fn product(a: u64, b: u64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn div_ceil(self, by: NonZeroU64) -> u64;
    fn div_floor(self, by: NonZeroU64) -> u64;
    /// Itself, if it fits one word.
    fn word(self) -> Option<u64>;
    fn load(words: &[u64]) -> Self;
    fn save(self, words: &mut [u64]);
}

impl Width for u64 {
    #[inline]
    fn instant(now: u64, scale: u64) -> Self {
        now * scale
    }
    #[inline]
    fn product(a: u64, b: u64) -> Self {
        a.saturating_mul(b)
    }
    #[inline]
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }
    #[inline]
    fn minus(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
    #[inline]
    fn div_ceil(self, by: NonZeroU64) -> u64 {
        // The scale is mostly 1, and a division costs more than all the rest.
        if by.get() == 1 { self } else { self / by + u64::from(self % by != 0) }
    }
    fn div_floor(self, by: NonZeroU64) -> u64 {
        self / by
    }
    #[inline]
    fn word(self) -> Option<u64> {
        Some(self)
    }
    #[inline]
    fn load(words: &[u64]) -> Self {
        words[0]
    }
    #[inline]
    fn save(self, words: &mut [u64]) {
        words[0] = self;
    }
}

impl Width for u128 {
    fn instant(now: u64, scale: u64) -> Self {
        mul(now, scale)
    }
    fn product(a: u64, b: u64) -> Self {
        mul(a, b)
    }
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }
    fn minus(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
    fn div_ceil(self, by: NonZeroU64) -> u64 {
        div_ceil(self, by.get())
    }
    fn div_floor(self, by: NonZeroU64) -> u64 {
        div_floor(self, by.get())
    }
    fn word(self) -> Option<u64> {
        u64::try_from(self).ok()
    }
    fn load(words: &[u64]) -> Self {
        Self::from(words[1]) << 64 | Self::from(words[0])
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is split into its two words")]
    fn save(self, words: &mut [u64]) {
        (words[0], words[1]) = (self as u64, (self >> 64) as u64);
    }
}

impl<W: Width> Cells<'_, W> {
    #[inline]
    fn now(&self, now: u64) -> W {
        W::instant(now, self.gcra.scale.get())
    }

    #[inline]
    fn debt(&self, view: View<'_>, now: u64) -> W {
        W::load(view.words).minus(self.now(now))
    }

    /// How long `units` must wait for a key with this debt.
    #[inline]
    fn wait_in(&self, debt: W, units: u64) -> u64 {
        if units > self.gcra.capacity {
            return NEVER;
        }
        let after = debt.plus(W::product(units, self.gcra.step.get()));
        if after <= self.depth {
            return 0;
        }
        // However deep the debt: it ends.
        after.minus(self.depth).div_ceil(self.gcra.scale).min(NEVER - 1)
    }

    /// The deepest that a debt may get.
    fn deepest(&self) -> W {
        let scale = self.gcra.scale.get();
        if self.gcra.overdraft {
            W::product(MAX_DEPTH_NS, scale)
        } else {
            W::product(DEBIT_DEPTH_NS, scale).max(self.depth)
        }
    }

    /// As many of these units as the deepest debt leaves room for.
    fn bearable(&self, tat: W, now: u64, units: u64) -> u64 {
        let step = self.gcra.step;
        let debt = tat.minus(self.now(now));
        let deeper = self.deepest().minus(debt).div_floor(step);
        units.min(deeper).min(MAX_UNITS.saturating_sub(debt.div_ceil(step)))
    }
}

impl<W: Width> Meter for Cells<'_, W> {
    fn words(&self) -> usize {
        self.gcra.words()
    }

    #[inline]
    fn max_cost(&self) -> Option<u64> {
        Some(self.gcra.capacity)
    }

    #[inline]
    fn used(&self, view: View<'_>, now: u64) -> u64 {
        self.debt(view, now).div_ceil(self.gcra.step)
    }

    #[inline]
    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        self.wait_in(self.debt(view, now), units)
    }

    #[inline]
    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        self.debt(view, now).div_ceil(self.gcra.scale)
    }

    #[inline]
    fn room(&self, view: View<'_>, now: u64) -> Room {
        let Gcra { step, scale, .. } = *self.gcra;
        match self.debt(view, now).word() {
            Some(level) => Room::Draining { level, step, scale },
            None => counted(self, view, now),
        }
    }

    #[inline]
    fn charge(&self, state: State<'_>, now: u64, units: u64) {
        let tat = W::load(state.words).max(self.now(now));
        let units = if self.gcra.overdraft { self.bearable(tat, now, units) } else { units };
        tat.plus(W::product(units, self.gcra.step.get())).save(state.words);
    }

    fn debit(&self, state: State<'_>, now: u64, units: u64) {
        let tat = W::load(state.words).max(self.now(now));
        let units = self.bearable(tat, now, units);
        tat.plus(W::product(units, self.gcra.step.get())).save(state.words);
    }

    fn refund(&self, state: State<'_>, now: u64, units: u64) {
        let tat = W::load(state.words).minus(W::product(units, self.gcra.step.get()));
        let fresh = W::product(0, 0);
        (if tat <= self.now(now) { fresh } else { tat }).save(state.words);
    }

    /// Any debt may be real. A store that knows how far the clock stepped uses `Persist::rewind`.
    fn redate(&self, _state: State<'_>, _now: u64) {}

    #[inline]
    fn need(&self, cost: u64) -> u64 {
        if self.gcra.overdraft { cost.min(1) } else { cost }
    }
}

macro_rules! cells {
    ($self:ident, $cells:ident => $answer:expr) => {
        match $self.narrow() {
            Some($cells) => $answer,
            None => {
                let $cells = $self.wide();
                $answer
            }
        }
    };
}

impl Meter for Gcra {
    fn words(&self) -> usize {
        if self.one_word { 1 } else { 2 }
    }
    fn max_cost(&self) -> Option<u64> {
        Some(self.capacity)
    }
    fn used(&self, view: View<'_>, now: u64) -> u64 {
        cells!(self, cells => cells.used(view, now))
    }
    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        cells!(self, cells => cells.wait(view, now, units))
    }
    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        cells!(self, cells => cells.reset(view, now))
    }
    fn room(&self, view: View<'_>, now: u64) -> Room {
        cells!(self, cells => cells.room(view, now))
    }
    fn charge(&self, state: State<'_>, now: u64, units: u64) {
        cells!(self, cells => cells.charge(state, now, units));
    }
    fn debit(&self, state: State<'_>, now: u64, units: u64) {
        cells!(self, cells => cells.debit(state, now, units));
    }
    fn refund(&self, state: State<'_>, now: u64, units: u64) {
        cells!(self, cells => cells.refund(state, now, units));
    }
    fn redate(&self, state: State<'_>, now: u64) {
        cells!(self, cells => cells.redate(state, now));
    }
    fn need(&self, cost: u64) -> u64 {
        cells!(self, cells => cells.need(cost))
    }
    /// The width is chosen once.
    #[inline]
    fn spend(&self, state: State<'_>, now: u64, cost: u64) -> (u64, Room) {
        cells!(self, cells => cells.spend(state, now, cost))
    }
}
