//! Fixed windows by the calendar: days, weeks, months and years in a time zone.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};
pub use waterclock_core::CalendarUnit;
use waterclock_core::{Calendar, FixedWindow, LimitError, Timestamp};

/// Why there is no such window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CalendarError {
    /// No time zone of this name.
    UnknownTimeZone(String),
    /// The limit is not a limit.
    Limit(LimitError),
}

impl fmt::Display for CalendarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTimeZone(name) => write!(
                f,
                "there is no time zone `{name}`; use a name of the tz database such as `Europe/Berlin`"
            ),
            Self::Limit(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CalendarError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Limit(error) = self { Some(error) } else { None }
    }
}

impl From<LimitError> for CalendarError {
    fn from(error: LimitError) -> Self {
        Self::Limit(error)
    }
}

/// At most `limit` in each day, week, month or year of a time zone.
pub fn fixed_window(
    limit: u64,
    unit: CalendarUnit,
    time_zone: &str,
) -> Result<FixedWindow, CalendarError> {
    let zone = TimeZone::get(time_zone)
        .map_err(|_| CalendarError::UnknownTimeZone(time_zone.to_owned()))?;
    Ok(FixedWindow::on_calendar(
        limit,
        Arc::new(ZonedCalendar { unit, zone, name: time_zone.into() }),
    )?)
}

struct ZonedCalendar {
    unit: CalendarUnit,
    zone: TimeZone,
    /// As it was given: zones are found whatever the case of their letters.
    name: Box<str>,
}

/// Stores tell calendars apart by this text, so it leaves out how the zone was spelled.
impl fmt::Debug for ZonedCalendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZonedCalendar").field("unit", &self.unit).field("zone", &self.zone).finish()
    }
}

impl ZonedCalendar {
    fn next_edge(&self, now: &Zoned) -> Result<Zoned, jiff::Error> {
        let today = now.date();
        let next: Date = match self.unit {
            CalendarUnit::Day => today.checked_add(1.day())?,
            CalendarUnit::Week => today.nth_weekday(1, Weekday::Monday)?,
            CalendarUnit::Month => today.first_of_month().checked_add(1.month())?,
            CalendarUnit::Year => today.first_of_year().checked_add(1.year())?,
        };
        // Where midnight is skipped, a day starts with its first instant.
        next.to_zoned(self.zone.clone())?.start_of_day()
    }
}

impl Calendar for ZonedCalendar {
    fn window_end(&self, now: Timestamp) -> Timestamp {
        let edge = jiff::Timestamp::from_nanosecond(now.as_nanos().into())
            .and_then(|now| self.next_edge(&now.to_zoned(self.zone.clone())));
        // Timestamps end in 2116, well inside what the calendar knows.
        edge.ok()
            .and_then(|edge| u64::try_from(edge.timestamp().as_nanosecond()).ok())
            .map_or(Timestamp::MAX, Timestamp::from_nanos)
    }

    fn shortest(&self) -> Duration {
        // Clocks are put forward by an hour on one day of a week, month or year.
        let hours = match self.unit {
            CalendarUnit::Day => 23,
            CalendarUnit::Week => 7 * 24 - 1,
            CalendarUnit::Month => 28 * 24 - 1,
            CalendarUnit::Year => 365 * 24,
        };
        Duration::from_secs(hours * 3_600)
    }

    fn unit(&self) -> Option<CalendarUnit> {
        Some(self.unit)
    }

    fn time_zone(&self) -> Option<&str> {
        Some(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two servers that spell a zone differently share one record in Redis, whose key is made of this text.
    #[test]
    fn the_spelling_of_a_zone_is_no_difference() {
        let day = |zone| fixed_window(5, CalendarUnit::Day, zone).expect("the zone exists");
        let (upper, lower) = (day("Europe/Berlin"), day("europe/berlin"));
        assert_eq!(format!("{:?}", upper.align()), format!("{:?}", lower.align()));
        assert_ne!(format!("{:?}", upper.align()), format!("{:?}", day("Europe/Paris").align()));
    }
}
