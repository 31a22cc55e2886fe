//! What a response advises, in whichever field it says so.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, StatusCode};
use waterclock::Timestamp;

use super::date::until_date;
use super::rate_limit::longest_without_rest;
use super::seconds::{is_zero, seconds};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// More is an instant: seconds since 1970, which make 2001 or later.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);
/// More is an instant in milliseconds. In seconds it would be the year 5138.
const LATEST: Duration = Duration::from_secs(100_000_000_000);

/// How long a server wants its client to stay away, if it says so. `now` is the time of day.
///
/// The first of these that is there and makes sense:
///
/// 1. `Retry-After`, in seconds or as a date, if the status is 400 or above. (With others it speaks of one
///    resource, not of the server.) A date counts from the response's own `Date`, if it has one, so that
///    the two clocks need not agree.
/// 2. `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10): the longest `t` of those with `r=0`.
/// 3. `X-RateLimit-Reset`, in seconds or as an instant of Unix time, if `X-RateLimit-Remaining` is 0 or the
///    status is 429.
///
/// Whatever makes no sense is as if it were not there.
///
/// ```
/// use http::{HeaderMap, HeaderValue, StatusCode};
/// use std::time::Duration;
/// use waterclock::Timestamp;
/// use waterclock_http::advised_wait;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit", HeaderValue::from_static(r#""burst";r=0;t=5"#));
/// let wait = advised_wait(StatusCode::OK, &headers, Timestamp::ZERO);
/// assert_eq!(wait, Some(Duration::from_secs(5)));
/// ```
#[must_use]
pub fn advised_wait(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let wait = retry_after(status, headers, now)
        .or_else(|| rate_limit(headers))
        .or_else(|| x_rate_limit(status, headers, now));
    wait.filter(|wait| !wait.is_zero())
}

/// Whether a response that advises a wait means that its request may be sent again after it.
pub(super) fn invites_retry(status: StatusCode, headers: &HeaderMap) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || (status == StatusCode::SERVICE_UNAVAILABLE && headers.contains_key(RETRY_AFTER))
}

fn retry_after(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    if !status.is_client_error() && !status.is_server_error() {
        return None;
    }
    let texts = texts(headers, RETRY_AFTER);
    texts.filter_map(|text| seconds(text).or_else(|| until_date(text, headers, now))).max()
}

fn rate_limit(headers: &HeaderMap) -> Option<Duration> {
    texts(headers, RATE_LIMIT).filter_map(longest_without_rest).max()
}

fn x_rate_limit(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let is_exhausted = texts(headers, X_REMAINING).any(is_zero);
    if !is_exhausted && status != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let since = |unix: Duration| unix.saturating_sub(Duration::from_nanos(now.as_nanos()));
    let wait = |reset: Duration| match reset {
        _ if reset > LATEST => since(reset / 1_000),
        _ if reset > LONGEST => since(reset),
        _ => reset,
    };
    texts(headers, X_RESET).filter_map(seconds).map(wait).max()
}

fn texts(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok()).map(str::trim)
}
