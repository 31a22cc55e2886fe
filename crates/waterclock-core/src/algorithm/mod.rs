//! One file per algorithm, each answering the same few questions about one key's state.

pub(crate) mod concurrency;
pub(crate) mod error_rate;
pub(crate) mod even_slots;
pub(crate) mod fixed_window;
pub(crate) mod gcra;
pub(crate) mod leaky_bucket;
pub(crate) mod min_interval;
pub(crate) mod narrow;
pub(crate) mod quota;
pub(crate) mod rolling_window;
pub(crate) mod sliding_window;

use core::time::Duration;

use narrow::Narrow;

use crate::decision::UNBOUNDED;
use crate::room::Room;
use crate::store::{State, View, alone};
use crate::{
    Concurrency, Decision, ErrorRate, EvenSlots, FixedWindow, Gcra, LeakyBucket, LimitError,
    MAX_PERIOD, MAX_UNITS, MinInterval, Quota, RollingWindow, SlidingWindow,
};

/// A wait that never ends; as the largest number it wins every maximum.
pub(crate) const NEVER: u64 = u64::MAX;

/// What an algorithm answers. Times are nanoseconds, `now` at most `Timestamp::MAX`.
///
/// Everything but `charge`, `debit`, `refund`, `give_back` and `redate` is a pure function of (self, view, now); an instant later
/// than the last charge may be asked about freely, which is how waits are composed.
pub(crate) trait Meter {
    /// How many words the state takes.
    fn words(&self) -> usize;
    /// The largest cost a fresh key could ever admit at once; `None` when any cost is one event.
    fn max_cost(&self) -> Option<u64>;
    /// Units that count against the limit now, rounded up (for event limits: 0 open, 1 closed).
    fn used(&self, view: View<'_>, now: u64) -> u64;
    /// The smallest d such that `units` are free at now + d if nothing else happens, or `NEVER`.
    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64;
    /// The smallest d such that at now + d the state answers as a fresh one would.
    fn reset(&self, view: View<'_>, now: u64) -> u64;
    /// What is left and when there will be more.
    fn room(&self, view: View<'_>, now: u64) -> Room {
        counted(self, view, now)
    }
    /// Records `units`, whether or not they fit.
    fn charge(&self, state: State<'_>, now: u64, units: u64);
    /// Records `units` that were used already, into debt if need be. A debit adds to what an event
    /// cost and is no event itself: algorithms that only count events are not touched by it.
    fn debit(&self, state: State<'_>, now: u64, units: u64);
    /// Gives back up to `units`, never beyond fresh.
    fn refund(&self, state: State<'_>, now: u64, units: u64);
    /// Gives back up to `units` of those that were charged at `charged_at`, as far as they still count.
    /// A bucket has one debt, whichever charge made it.
    fn give_back(&self, state: State<'_>, charged_at: u64, now: u64, units: u64) {
        _ = charged_at;
        self.refund(state, now, units);
    }
    /// Brings a state that the future wrote back to what could have been written by now.
    ///
    /// What was used stays used; no instant may lie later than a charge made now would put it.
    fn redate(&self, state: State<'_>, now: u64);
    /// How many free units `cost` asks for before it is admitted.
    fn need(&self, cost: u64) -> u64 {
        cost
    }
    /// How long a cost of more than 0 must wait, and what is left; charges it if it need not wait. The same as one after the
    /// other, which algorithms that look something up, or divide, do in one.
    #[inline(always)]
    fn spend(&self, state: State<'_>, now: u64, cost: u64) -> (u64, Room) {
        in_steps(self, state, now, cost)
    }
}

/// [`Meter::spend`], one question after the other.
#[inline(always)]
pub(crate) fn in_steps<M: Meter + ?Sized>(
    meter: &M,
    mut state: State<'_>,
    now: u64,
    cost: u64,
) -> (u64, Room) {
    let wait = meter.wait(state.view(), now, meter.need(cost));
    if wait == 0 {
        meter.charge(state.reborrow(), now, cost);
    }
    (wait, meter.room(state.view(), now))
}

pub(crate) fn counted<M: Meter + ?Sized>(meter: &M, view: View<'_>, now: u64) -> Room {
    let (limit, remaining) = (meter.max_cost(), remaining(meter, view, now));
    let next_unit = match remaining {
        Some(left) if remaining != limit => meter.wait(view, now, left + 1),
        _ => NEVER,
    };
    let remaining = remaining.unwrap_or(UNBOUNDED);
    Room::Counted { remaining, next_unit, reset: meter.reset(view, now) }
}

/// The largest cost an algorithm would admit now; `None` for any.
#[inline]
pub(crate) fn remaining<M: Meter + ?Sized>(meter: &M, view: View<'_>, now: u64) -> Option<u64> {
    let used = meter.used(view, now);
    match meter.max_cost() {
        Some(limit) => Some(limit.saturating_sub(used)),
        None if used > 0 => Some(0),
        None => None,
    }
}

/// An algorithm with its numbers. Every store runs all of them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Generic cell rate algorithm; token bucket; leaky bucket that drips one by one.
    Gcra(Gcra),
    /// Leaky bucket that drips several units at a time.
    LeakyBucket(LeakyBucket),
    /// A counter per window.
    FixedWindow(FixedWindow),
    /// Two counters, the previous one weighted.
    SlidingWindow(SlidingWindow),
    /// A log of what was admitted.
    RollingWindow(RollingWindow),
    /// Use it or lose it.
    Quota(Quota),
    /// One event in each even half-slot.
    EvenSlots(EvenSlots),
    /// No two events closer than this.
    MinInterval(MinInterval),
    /// So many held at once.
    Concurrency(Concurrency),
    /// Closed while too many end badly.
    ErrorRate(ErrorRate),
}

macro_rules! meter {
    ($self:ident, $meter:ident => $answer:expr) => {
        match $self {
            Algorithm::Gcra($meter) => $answer,
            Algorithm::LeakyBucket($meter) => $answer,
            Algorithm::FixedWindow($meter) => $answer,
            Algorithm::SlidingWindow($meter) => $answer,
            Algorithm::RollingWindow($meter) => $answer,
            Algorithm::Quota($meter) => $answer,
            Algorithm::EvenSlots($meter) => $answer,
            Algorithm::MinInterval($meter) => $answer,
            Algorithm::Concurrency($meter) => $answer,
            Algorithm::ErrorRate($meter) => $answer,
        }
    };
}

impl Meter for Algorithm {
    fn words(&self) -> usize {
        meter!(self, m => m.words())
    }
    #[inline]
    fn max_cost(&self) -> Option<u64> {
        meter!(self, m => m.max_cost())
    }
    #[inline]
    fn used(&self, view: View<'_>, now: u64) -> u64 {
        meter!(self, m => m.used(view, now))
    }
    #[inline]
    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        meter!(self, m => m.wait(view, now, units))
    }
    #[inline]
    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        meter!(self, m => m.reset(view, now))
    }
    #[inline]
    fn room(&self, view: View<'_>, now: u64) -> Room {
        meter!(self, m => m.room(view, now))
    }
    #[inline]
    fn charge(&self, state: State<'_>, now: u64, units: u64) {
        meter!(self, m => m.charge(state, now, units));
    }
    fn debit(&self, state: State<'_>, now: u64, units: u64) {
        meter!(self, m => m.debit(state, now, units));
    }
    fn refund(&self, state: State<'_>, now: u64, units: u64) {
        meter!(self, m => m.refund(state, now, units));
    }
    fn give_back(&self, state: State<'_>, charged_at: u64, now: u64, units: u64) {
        meter!(self, m => m.give_back(state, charged_at, now, units));
    }
    fn redate(&self, state: State<'_>, now: u64) {
        meter!(self, m => m.redate(state, now));
    }
    #[inline]
    fn need(&self, cost: u64) -> u64 {
        meter!(self, m => m.need(cost))
    }
    #[inline]
    fn spend(&self, state: State<'_>, now: u64, cost: u64) -> (u64, Room) {
        meter!(self, m => m.spend(state, now, cost))
    }
}

impl Algorithm {
    /// The names of the algorithms that can record refusals.
    pub const RECORD_REFUSALS: &'static [&'static str] =
        &["fixed-window", "sliding-window", "rolling-window"];

    /// The algorithm's name, as configuration spells it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Gcra(gcra) if gcra.is_leaky_bucket() => "leaky-bucket",
            _ => self.own_name(),
        }
    }

    pub(crate) fn narrowed(&self) -> Option<Narrow> {
        if let Self::Gcra(gcra) = self { gcra.narrowed() } else { None }
    }

    /// A whole check by this algorithm alone.
    #[inline(always)]
    pub(crate) fn check_alone(&self, state: State<'_>, now: u64, cost: u64) -> Decision {
        meter!(self, m => alone(m, state, now, cost))
    }

    /// Whether its first word is the handle of a log.
    pub(crate) fn keeps_log(&self) -> bool {
        matches!(self, Self::RollingWindow(_) | Self::Concurrency(_) | Self::ErrorRate(_))
    }

    /// Whether refusals can be recorded too.
    #[must_use]
    pub fn records_refusals(&self) -> bool {
        Self::RECORD_REFUSALS.contains(&self.name())
    }

    /// Whether room can shrink again with time alone, so that waits must be composed step by step.
    pub(crate) fn recurs(&self) -> bool {
        matches!(self, Self::Quota(_) | Self::EvenSlots(_))
    }
}

/// Calls a macro with the type of every algorithm, and its name.
macro_rules! for_each_algorithm {
    ($apply:ident) => {
        $apply!(
            Gcra = "gcra",
            LeakyBucket = "leaky-bucket",
            FixedWindow = "fixed-window",
            SlidingWindow = "sliding-window",
            RollingWindow = "rolling-window",
            Quota = "quota",
            EvenSlots = "even-slots",
            MinInterval = "min-interval",
            Concurrency = "concurrency",
            ErrorRate = "error-rate"
        );
    };
}
pub(crate) use for_each_algorithm;

macro_rules! names {
    ($($algorithm:ident = $name:literal),*) => {
        impl Algorithm {
            /// The names of all algorithms.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            fn own_name(&self) -> &'static str {
                match self {
                    $(Self::$algorithm(_) => $name),*
                }
            }
        }
    };
}
for_each_algorithm!(names);

/// What a window says of itself.
macro_rules! measured {
    ($window:ident) => {
        impl $window {
            /// The limit.
            #[must_use]
            pub fn limit(&self) -> u64 {
                self.limit
            }

            /// The length of a window; on a calendar, of the shortest.
            #[must_use]
            pub fn period(&self) -> Duration {
                Duration::from_nanos(self.per)
            }
        }
    };
}
use measured;

/// Parses a period into nanoseconds.
pub(crate) fn period(name: &'static str, value: Duration) -> Result<u64, LimitError> {
    if value.is_zero() {
        return Err(LimitError::ZeroPeriod(name));
    }
    if value > MAX_PERIOD {
        return Err(LimitError::LongPeriod(name));
    }
    u64::try_from(value.as_nanos()).map_err(|_| LimitError::LongPeriod(name))
}

/// Parses a positive number of units.
pub(crate) fn units(name: &'static str, value: u64) -> Result<u64, LimitError> {
    match value {
        0 => Err(LimitError::ZeroUnits(name)),
        1..=MAX_UNITS => Ok(value),
        _ => Err(LimitError::ManyUnits(name)),
    }
}

/// A counter after so many more units. It stops at twice the limit, which only refusals that count can reach.
/// What was counted under a higher limit stays.
pub(crate) fn count_up(count: u64, units: u64, limit: u64) -> u64 {
    count.saturating_add(units).min(count.max(2 * limit))
}

/// A counter after so many more that were used already. They are remembered for what they are, so that a
/// refund gives back that much and no more, up to the largest number of units.
pub(crate) fn count_debit(count: u64, units: u64) -> u64 {
    count.saturating_add(units).min(count.max(MAX_UNITS))
}

/// The end of the epoch-aligned window that holds `now`.
pub(crate) fn epoch_window_end(now: u64, period: u64) -> u64 {
    (now / period + 1) * period
}
