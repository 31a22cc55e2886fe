//! `Retry-After` as a date.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::DATE;
use waterclock::Timestamp;

/// How long until this date, by the clock of whoever wrote it, where that is told; else by ours.
pub(super) fn until_date(text: &str, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let date = unix(text)?;
    let written = headers.get(DATE).and_then(|value| unix(value.to_str().ok()?.trim()));
    Some(date.saturating_sub(written.unwrap_or(Duration::from_nanos(now.as_nanos()))))
}

/// Since 1970. A date before counts as that: it is over.
fn unix(text: &str) -> Option<Duration> {
    let date: SystemTime = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(UNIX_EPOCH).unwrap_or_default())
}
