use alloc::boxed::Box;
use core::time::Duration;

use crate::algorithm::{Meter, NEVER, for_each_algorithm, remaining};
use crate::decision::UNBOUNDED;
use crate::room::Room;
use crate::store::{State, View, fixed_point};
use crate::{
    Algorithm, Concurrency, ErrorRate, EvenSlots, FixedWindow, Gcra, LeakyBucket, LimitError,
    MinInterval, Outcome, Quota, RollingWindow, SlidingWindow,
};

const SECOND_NS: u64 = 1_000_000_000;

/// An algorithm with its numbers, under a name. A `Limit` that exists is valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    name: Box<str>,
    unit: Box<str>,
    shadow: bool,
    algorithm: Algorithm,
    gap: Option<MinInterval>,
    /// State words of the algorithm alone.
    own_words: usize,
}

impl Limit {
    /// `n` per second and as many at once. Zero admits nothing.
    #[must_use]
    pub fn per_second(n: u64) -> Gcra {
        Gcra::infallible(n, SECOND_NS)
    }

    /// `n` per minute and as many at once. Zero admits nothing.
    #[must_use]
    pub fn per_minute(n: u64) -> Gcra {
        Gcra::infallible(n, 60 * SECOND_NS)
    }

    /// `n` per hour and as many at once. Zero admits nothing.
    #[must_use]
    pub fn per_hour(n: u64) -> Gcra {
        Gcra::infallible(n, 3_600 * SECOND_NS)
    }

    /// `n` per 24 hours and as many at once. Zero admits nothing.
    #[must_use]
    pub fn per_day(n: u64) -> Gcra {
        Gcra::infallible(n, 86_400 * SECOND_NS)
    }

    fn new(name: &str, algorithm: Algorithm) -> Self {
        let own_words = algorithm.words();
        let (name, unit) = (name.into(), "requests".into());
        Self { name, unit, shadow: false, algorithm, gap: None, own_words }
    }

    /// The same limit with other numbers.
    pub(crate) fn with(&self, algorithm: Algorithm, gap: Option<MinInterval>) -> Self {
        let own_words = algorithm.words();
        Self { algorithm, gap, own_words, ..self.clone() }
    }

    /// Sets the name, which `refused_by` reports. The default is the algorithm's name.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the unit it counts: `requests` (the default), `bytes`, `cents`, …
    #[must_use]
    pub fn with_unit(mut self, unit: &str) -> Self {
        self.unit = unit.into();
        self
    }

    /// Decide and report, never refuse.
    #[must_use]
    pub fn with_shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// Also requires this much time between two admissions.
    pub fn with_min_interval(mut self, every: Duration) -> Result<Self, LimitError> {
        self.gap = match MinInterval::new(every) {
            Ok(gap) => Some(gap),
            Err(LimitError::ZeroPeriod(_)) => return Err(LimitError::ZeroPeriod("min_interval")),
            Err(_) => return Err(LimitError::LongPeriod("min_interval")),
        };
        Ok(self)
    }

    /// The name, which `refused_by` reports.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The unit it counts.
    #[must_use]
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// Whether it runs in shadow: it decides and reports, and never refuses.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// The algorithm with its numbers.
    #[must_use]
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// The shortest time between two admissions, if there is one.
    #[must_use]
    pub fn min_interval(&self) -> Option<Duration> {
        self.gap.map(|gap| gap.period())
    }

    pub(crate) fn gap(&self) -> Option<MinInterval> {
        self.gap
    }

    /// State words: the algorithm's, then one for the minimum interval if there is one.
    #[inline]
    #[must_use]
    pub fn words(&self) -> usize {
        self.own_words + usize::from(self.gap.is_some())
    }

    /// The largest cost a fresh key could ever admit at once; `None` when unbounded.
    #[inline]
    #[must_use]
    pub fn max_cost(&self) -> Option<u64> {
        self.algorithm.max_cost()
    }

    /// How long until this cost is admitted if nothing else happens.
    #[inline]
    pub(crate) fn wait(&self, view: View<'_>, now: u64, cost: u64) -> u64 {
        self.wait_for_units(view, now, self.algorithm.need(cost))
    }

    /// How long until so many units are free: as `wait`, but overdraft does not help.
    #[inline]
    pub(crate) fn wait_for_units(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        let Some(gap) = self.gap else { return self.algorithm.wait(view, now, units) };
        let (own, last) = self.split(view);
        fixed_point(now, self.algorithm.recurs(), |at| {
            self.algorithm.wait(own, at, units).max(gap.wait(last, at, units))
        })
    }

    /// The largest cost that would be admitted now; `None` for any.
    #[inline]
    pub(crate) fn remaining(&self, view: View<'_>, now: u64) -> Option<u64> {
        let (own, last) = self.split(view);
        if self.gap.is_some_and(|gap| gap.used(last, now) > 0) {
            return Some(0);
        }
        remaining(&self.algorithm, own, now)
    }

    /// `limit − used`; negative if refused attempts were counted beyond the limit (count-refusals mode).
    pub(crate) fn counter(&self, view: View<'_>, now: u64) -> Option<i64> {
        let used = i64::try_from(self.algorithm.used(self.split(view).0, now)).ok()?;
        let limit = i64::try_from(self.max_cost()?).ok()?;
        Some((limit - used).max(-limit))
    }

    /// What is left and when there will be more.
    #[inline]
    pub(crate) fn room(&self, view: View<'_>, now: u64) -> Room {
        let Some(gap) = self.gap else { return self.algorithm.room(view, now) };
        let (own, last) = self.split(view);
        let room = self.algorithm.room(own, now);
        let limit = self.max_cost().unwrap_or(UNBOUNDED);
        let reset = room.reset(limit).max(gap.reset(last, now));
        match gap.used(last, now) {
            0 => Room::Counted {
                remaining: room.remaining(limit),
                next_unit: room.next_unit(limit),
                reset,
            },
            // Nothing is admitted before the minimum interval has passed, even if there is room.
            _ => {
                Room::Counted { remaining: 0, next_unit: self.wait_for_units(view, now, 1), reset }
            }
        }
    }

    /// How long until the state equals a fresh one.
    pub(crate) fn reset(&self, view: View<'_>, now: u64) -> u64 {
        let (own, last) = self.split(view);
        self.algorithm.reset(own, now).max(self.gap.map_or(0, |gap| gap.reset(last, now)))
    }

    /// How long until at most half of it is used; for limits that count no units, until the state equals a fresh one.
    ///
    /// Forgetting such a state at t admits at most half a capacity C too much. Let a window of length D around t have
    /// D₁ before it. A bucket admits at most used(t) + rate·D₁ in D₁, and what a fresh one does after t:
    /// C/2 more than its bound. Of counters, the window that t is in admits what is counted, at most C/2, and then what
    /// a fresh one does; windows before and after it are as they were.
    pub(crate) fn half_reset(&self, view: View<'_>, now: u64) -> u64 {
        let (own, last) = self.split(view);
        let gap = self.gap.map_or(0, |gap| gap.reset(last, now));
        let reset = self.algorithm.reset(own, now);
        let half = match (&self.algorithm, self.max_cost()) {
            (Algorithm::Concurrency(_), _) | (_, None) => reset,
            (algorithm, Some(limit)) => algorithm.wait(own, now, limit.div_ceil(2)).min(reset),
        };
        half.max(gap)
    }

    #[inline]
    pub(crate) fn charge(&self, mut state: State<'_>, now: u64, units: u64) {
        if units == 0 {
            return;
        }
        let Some(gap) = self.gap else { return self.algorithm.charge(state, now, units) };
        let own = self.own_words;
        self.algorithm.charge(state.part(0, own), now, units);
        gap.charge(state.part(own, 1), now, units);
    }

    /// Like `charge`, for units held until `until` at most. Returns when they expire by themselves; 0 if they do not.
    pub(crate) fn hold(&self, mut state: State<'_>, now: u64, units: u64, until: u64) -> u64 {
        self.charge(state.reborrow(), now, units);
        let Algorithm::Concurrency(slots) = &self.algorithm else { return 0 };
        let ends = slots.ends(now, until);
        if units > 0 {
            slots.take(state.part(0, self.own_words), now, units, ends);
        }
        ends
    }

    /// Releases held units before they expire. Returns false for limits that hold nothing.
    pub(crate) fn free(&self, mut state: State<'_>, now: u64, units: u64, ends: u64) -> bool {
        let Algorithm::Concurrency(slots) = &self.algorithm else { return false };
        slots.free(state.part(0, self.own_words), now, units, ends);
        true
    }

    /// A debit is not an event, so the minimum interval ignores it.
    pub(crate) fn debit(&self, mut state: State<'_>, now: u64, units: u64) {
        if units > 0 {
            self.algorithm.debit(state.part(0, self.own_words), now, units);
        }
    }

    pub(crate) fn refund(&self, mut state: State<'_>, now: u64, units: u64) {
        self.algorithm.refund(state.part(0, self.own_words), now, units);
    }

    pub(crate) fn give_back(&self, mut state: State<'_>, at: u64, now: u64, units: u64) {
        self.algorithm.give_back(state.part(0, self.own_words), at, now, units);
    }

    /// Only error-rate limits use reports.
    pub(crate) fn report(&self, mut state: State<'_>, now: u64, outcome: Outcome, times: u64) {
        if let Algorithm::ErrorRate(breaker) = &self.algorithm {
            breaker.report(state.part(0, self.own_words), now, outcome, times);
        }
    }

    pub(crate) fn redate(&self, mut state: State<'_>, now: u64) {
        self.algorithm.redate(state.part(0, self.own_words), now);
        if let Some(gap) = self.gap {
            gap.redate(state.part(self.own_words, 1), now);
        }
    }

    /// The state of the algorithm, and that of the minimum interval.
    #[inline]
    fn split<'a>(&self, view: View<'a>) -> (View<'a>, View<'a>) {
        if self.gap.is_none() {
            return (view, view);
        }
        let own = self.own_words;
        (view.part(0, own), view.part(own, view.words.len() - own))
    }
}

/// Whether a wait is one that ends.
pub(crate) fn ends(wait: u64) -> Option<u64> {
    (wait != NEVER).then_some(wait)
}

macro_rules! named {
    ($($algorithm:ident = $_:literal),*) => {$(
        impl $algorithm {
            /// A limit with this algorithm and this name, which `refused_by` reports.
            #[must_use]
            pub fn with_name(self, name: &str) -> Limit {
                Limit::from(self).with_name(name)
            }
        }
    )*};
}
for_each_algorithm!(named);

macro_rules! limits_from {
    ($($algorithm:ident),*) => {$(
        impl From<$algorithm> for Limit {
            fn from(algorithm: $algorithm) -> Self {
                let algorithm = Algorithm::$algorithm(algorithm);
                Self::new(algorithm.name(), algorithm)
            }
        }
    )*};
}
limits_from!(
    Gcra,
    FixedWindow,
    SlidingWindow,
    RollingWindow,
    Quota,
    EvenSlots,
    MinInterval,
    Concurrency,
    ErrorRate
);

impl From<LeakyBucket> for Limit {
    fn from(bucket: LeakyBucket) -> Self {
        Self::new("leaky-bucket", bucket.into())
    }
}
