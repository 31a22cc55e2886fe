//! Days, weeks, months and years as people mean them.
#![cfg(feature = "calendar")]

use waterclock::calendar::{CalendarError, CalendarUnit, fixed_window};
use waterclock::{Limiter, ManualClock, Timestamp};

/// Seconds from `start` (Unix time) to the end of its window.
fn seconds_left(unit: CalendarUnit, zone: &str, start: u64) -> u64 {
    let clock = ManualClock::default();
    clock.set(Timestamp::from_micros(start * 1_000_000));
    let limiter = Limiter::with_clock(fixed_window(1, unit, zone).unwrap(), clock.clone());
    assert!(limiter.check().is_allowed());
    let retry = limiter.check().retry_after().unwrap();
    clock.advance(retry);
    assert!(limiter.check().is_allowed(), "the edge admits");
    retry.as_secs()
}

#[test]
fn windows_end_where_the_calendar_says() {
    use CalendarUnit::{Day, Month, Week, Year};
    let hours = |seconds: u64| seconds / 3_600;
    let noon = 1_794_744_000; // Sunday, 2026-11-15 12:00 UTC
    assert_eq!(hours(seconds_left(Day, "UTC", noon)), 12);
    assert_eq!(hours(seconds_left(Day, "Asia/Tokyo", noon)), 3);
    assert_eq!(hours(seconds_left(Week, "UTC", noon)), 12, "weeks start on Monday");
    assert_eq!(hours(seconds_left(Month, "UTC", noon)), 15 * 24 + 12);
    assert_eq!(hours(seconds_left(Year, "UTC", noon)), 46 * 24 + 12);
    // 2026-03-29 is 23 hours long in Berlin, 2026-10-25 is 25.
    assert_eq!(hours(seconds_left(Day, "Europe/Berlin", 1_774_738_800)), 23);
    assert_eq!(hours(seconds_left(Day, "Europe/Berlin", 1_792_879_200)), 25);
    // February of a leap year.
    assert_eq!(hours(seconds_left(Month, "UTC", 1_832_976_000)), 29 * 24);
}

#[test]
fn an_unknown_zone_is_named() {
    let error = fixed_window(1, CalendarUnit::Day, "Europe/Atlantis").unwrap_err();
    assert_eq!(error, CalendarError::UnknownTimeZone("Europe/Atlantis".to_owned()));
    assert!(error.to_string().contains("`Europe/Atlantis`"));
}
