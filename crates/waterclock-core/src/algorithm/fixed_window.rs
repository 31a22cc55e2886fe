//! One counter per window.
//!
//! State is (end of the window, units counted in it).
//!
//! Bound: a half-open window of length D ≤ P meets at most two fixed windows (a third would need
//! more than a whole one between them), each admitting at most `limit`: at most `2·limit`, and that
//! is reached by spending one limit just before an edge and one just after. Aligned to the first
//! request the windows are still disjoint and at least P long, so the same count holds; calendar
//! windows vary in length, and D is then at most the shortest of them.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use super::{Meter, NEVER, count_debit, count_up, epoch_window_end, measured, period, units};
use crate::room::Room;
use crate::store::{State, View};
use crate::{LimitError, Timestamp};

/// What one window of a calendar is. Exhaustive: a [`Calendar`] of anything else has no unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CalendarUnit {
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first of a month to the next.
    Month,
    /// From New Year to New Year.
    Year,
}

impl CalendarUnit {
    /// `day`, `week`, `month` or `year`, as configuration spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The unit of this [name](CalendarUnit::name).
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Day, Self::Week, Self::Month, Self::Year]
            .into_iter()
            .find(|unit| unit.name() == name)
    }
}

/// Where windows of uneven length end: days, weeks, months or years in some time zone.
///
/// The core has no time zones: `waterclock::calendar` implements this with the tz database. Every method is
/// a pure function of its arguments.
pub trait Calendar: fmt::Debug + Send + Sync {
    /// The end of the window that holds `now`: the smallest edge that is later than `now`.
    fn window_end(&self, now: Timestamp) -> Timestamp;
    /// The shortest window there is, in whole seconds: what a client may be told as its length.
    fn shortest(&self) -> Duration;
    /// What one window is, if it is one of these.
    fn unit(&self) -> Option<CalendarUnit> {
        None
    }
    /// The time zone by its name in the tz database, if it has one.
    fn time_zone(&self) -> Option<&str> {
        None
    }
}

/// Where windows start. Exhaustive: what is not one of the first two is a calendar.
#[derive(Clone, Debug)]
pub enum Align {
    /// With the first admitted cost.
    First,
    /// At multiples of the period since the Unix epoch.
    Epoch,
    /// At the edges of a calendar.
    Calendar(Arc<dyn Calendar>),
}

impl Align {
    /// `first`, `epoch` or `calendar`, as configuration spells it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Epoch => "epoch",
            Self::Calendar(_) => "calendar",
        }
    }
}

/// Two calendars are equal if they are one, or have the same unit and time zone.
impl PartialEq for Align {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Calendar(one), Self::Calendar(two)) => {
                let named = one.unit().is_some() && one.time_zone().is_some();
                Arc::ptr_eq(one, two)
                    || named && (one.unit(), one.time_zone()) == (two.unit(), two.time_zone())
            }
            _ => core::mem::discriminant(self) == core::mem::discriminant(other),
        }
    }
}

/// At most `limit` in each window.
#[derive(Clone, Debug, PartialEq)]
pub struct FixedWindow {
    limit: u64,
    per: u64,
    align: Align,
}

impl FixedWindow {
    /// At most `limit` in each window of `per`, which starts with the first admitted cost.
    pub fn new(limit: u64, per: Duration) -> Result<Self, LimitError> {
        Ok(Self { limit: units("limit", limit)?, per: period("per", per)?, align: Align::First })
    }

    /// At most `limit` in each window of `per`, counted from the Unix epoch.
    pub fn aligned(limit: u64, per: Duration) -> Result<Self, LimitError> {
        Ok(Self { align: Align::Epoch, ..Self::new(limit, per)? })
    }

    /// At most `limit` in each window of a calendar.
    pub fn on_calendar(limit: u64, calendar: Arc<dyn Calendar>) -> Result<Self, LimitError> {
        let shortest = calendar.shortest();
        Ok(Self { align: Align::Calendar(calendar), ..Self::new(limit, shortest)? })
    }

    /// Where windows start. Exhaustive: what is not one of the first two is a calendar.
    #[must_use]
    pub fn align(&self) -> &Align {
        &self.align
    }

    fn window_end(&self, now: u64) -> u64 {
        match &self.align {
            Align::First => now + self.per,
            Align::Epoch => epoch_window_end(now, self.per),
            // A calendar that has no later edge would freeze its keys; one tick is the least.
            Align::Calendar(calendar) => {
                calendar.window_end(Timestamp::from_nanos(now)).as_nanos().max(now + 1)
            }
        }
    }

    /// The end of the window that starts where the old one did, if there is such a window.
    pub(crate) fn same_start(&self, old: &Self, old_end: u64) -> Option<u64> {
        match (&self.align, &old.align) {
            (Align::First, Align::First) => Some((old_end + self.per).saturating_sub(old.per)),
            (Align::Epoch, Align::Epoch) if self.per == old.per => Some(old_end),
            _ => None,
        }
    }
}

/// Units counted in the window that holds `now`.
fn count(words: &[u64], now: u64) -> u64 {
    match *words {
        [end, count] if now < end => count,
        _ => 0,
    }
}

measured!(FixedWindow);

impl Meter for FixedWindow {
    fn words(&self) -> usize {
        2
    }

    fn max_cost(&self) -> Option<u64> {
        Some(self.limit)
    }

    fn used(&self, view: View<'_>, now: u64) -> u64 {
        count(view.words, now)
    }

    fn wait(&self, view: View<'_>, now: u64, units: u64) -> u64 {
        if units > self.limit {
            NEVER
        } else if count(view.words, now) + units <= self.limit {
            0
        } else {
            view.words[0] - now
        }
    }

    fn reset(&self, view: View<'_>, now: u64) -> u64 {
        if count(view.words, now) == 0 { 0 } else { view.words[0] - now }
    }

    fn charge(&self, state: State<'_>, now: u64, units: u64) {
        let before = count(state.words, now);
        let end = if before == 0 { self.window_end(now) } else { state.words[0] };
        state.words.copy_from_slice(&[end, count_up(before, units, self.limit)]);
    }

    /// What is left and when there is more are both known from the one count.
    #[inline(always)]
    fn spend(&self, state: State<'_>, now: u64, cost: u64) -> (u64, Room) {
        let [end, counted] = state.words else { return (NEVER, Room::NONE) };
        let mut used = if now < *end { *counted } else { 0 };
        let wait = match used.saturating_add(cost) {
            _ if cost > self.limit => NEVER,
            after if after <= self.limit => {
                if used == 0 {
                    *end = self.window_end(now);
                }
                (used, *counted) = (after, after);
                0
            }
            _ => *end - now,
        };
        let remaining = self.limit.saturating_sub(used);
        if used == 0 {
            return (wait, Room::Counted { remaining, next_unit: NEVER, reset: 0 });
        }
        (wait, Room::Counted { remaining, next_unit: *end - now, reset: *end - now })
    }

    fn debit(&self, state: State<'_>, now: u64, units: u64) {
        let before = count(state.words, now);
        let end = if before == 0 { self.window_end(now) } else { state.words[0] };
        state.words.copy_from_slice(&[end, count_debit(before, units)]);
    }

    fn refund(&self, state: State<'_>, now: u64, units: u64) {
        let left = count(state.words, now).saturating_sub(units);
        let end = state.words[0];
        state.words.copy_from_slice(&if left == 0 { [0, 0] } else { [end, left] });
    }

    fn give_back(&self, state: State<'_>, charged_at: u64, now: u64, units: u64) {
        let same_window = match &self.align {
            Align::First => state.words[0].saturating_sub(self.per) <= charged_at,
            Align::Epoch | Align::Calendar(_) => self.window_end(charged_at) == state.words[0],
        };
        if same_window {
            self.refund(state, now, units);
        }
    }

    fn redate(&self, state: State<'_>, now: u64) {
        state.words[0] = state.words[0].min(self.window_end(now));
    }
}
