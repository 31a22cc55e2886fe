//! How long a response asks its client to wait, in any of the fields that servers use.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, StatusCode};
use sfv::{Item, List, ListEntry, Parser};
use waterclock::Timestamp;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// More seconds than this are an instant of Unix time: 2001 or later.
const MAX_DURATION: Duration = Duration::from_secs(1_000_000_000);
/// More than this is an instant in milliseconds; in seconds it would be the year 5138.
const MAX_INSTANT: Duration = Duration::from_secs(100_000_000_000);

/// How long a response asks the client to wait, if it does. `now` is the time of day.
///
/// The first of these that is present and valid:
///
/// 1. `Retry-After`, in seconds or as a date, if the status is 400 or above. (With other
///    statuses it concerns one resource, not the server.) A date counts from the response's own `Date`, if
///    it has one, so that the two clocks need not agree.
/// 2. `RateLimit` (draft-ietf-httpapi-ratelimit-headers, 10 and 11): the longest `t` of those with `r=0`.
/// 3. `X-RateLimit-Reset`, in seconds or as an instant of Unix time, if `X-RateLimit-Remaining` is 0 or the
///    status is 429.
///
/// Invalid values are ignored.
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

/// Whether the request of a response that advises a wait may be sent again after it.
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
    texts(headers, RATE_LIMIT).filter_map(longest_exhausted).max()
}

fn x_rate_limit(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let is_exhausted = texts(headers, X_REMAINING).any(is_zero);
    if !is_exhausted && status != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let since = |unix: Duration| unix.saturating_sub(Duration::from_nanos(now.as_nanos()));
    let wait = |reset: Duration| match reset {
        _ if reset > MAX_INSTANT => since(reset / 1_000),
        _ if reset > MAX_DURATION => since(reset),
        _ => reset,
    };
    texts(headers, X_RESET).filter_map(seconds).map(wait).max()
}

fn texts(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok()).map(str::trim)
}

/// How long until this date, by the server's clock if the response has a `Date`, else by ours.
fn until_date(text: &str, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let date = unix(text)?;
    let written = headers.get(DATE).and_then(|value| unix(value.to_str().ok()?.trim()));
    Some(date.saturating_sub(written.unwrap_or(Duration::from_nanos(now.as_nanos()))))
}

/// The time since 1970; zero for dates before.
fn unix(text: &str) -> Option<Duration> {
    let date: SystemTime = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The longest `t` among the limits of a `RateLimit` field with nothing left.
///
/// The field is a Structured Field List of Strings. Drafts 10 and 11 differ in `t` only where something is left.
fn longest_exhausted(text: &str) -> Option<Duration> {
    let list: List = Parser::new(text).parse().ok()?;
    list.iter().filter_map(exhausted).max()
}

fn exhausted(entry: &ListEntry) -> Option<Duration> {
    let ListEntry::Item(item) = entry else { return None };
    // The draft says String; earlier drafts had Tokens.
    let is_named = item.bare_item.as_string().is_some() || item.bare_item.as_token().is_some();
    if !is_named || integer(item, "r")? > 0 {
        return None;
    }
    u64::try_from(integer(item, "t")?).ok().map(Duration::from_secs)
}

fn integer(item: &Item, name: &str) -> Option<i64> {
    item.params.get(name)?.as_integer().map(i64::from)
}

/// Seconds in decimal, with an optional fraction that is rounded up to nanoseconds. A number that is too large
/// saturates, because it is a long wait all the same.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, decimals) = match text.split_once('.') {
        Some((whole, decimals)) => (digits(whole)?, digits(decimals)?),
        None => (digits(text)?, ""),
    };
    let whole = whole.parse().unwrap_or(u64::MAX);
    let (nanos, beyond) = decimals.split_at(decimals.len().min(9));
    let more = beyond.bytes().any(|digit| digit != b'0');
    let nanos: u64 = format!("{nanos:0<9}").parse().ok()?;
    Some(Duration::from_secs(whole).saturating_add(Duration::from_nanos(nanos + u64::from(more))))
}

fn is_zero(text: &str) -> bool {
    digits(text).is_some_and(|digits| digits.bytes().all(|digit| digit == b'0'))
}

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_round_up_and_large_numbers_stay_large() {
        let ns = |nanos| Some(Duration::from_nanos(nanos));
        assert_eq!(seconds("0"), ns(0));
        assert_eq!(seconds("007"), ns(7_000_000_000));
        assert_eq!(seconds("1.5"), ns(1_500_000_000));
        assert_eq!(seconds("0.000000001"), ns(1));
        assert_eq!(seconds("0.0000000001"), ns(1));
        assert_eq!(seconds("0.0000000010"), ns(1));
        assert_eq!(seconds("0.99999999900001"), ns(1_000_000_000));
        assert_eq!(seconds("99999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(seconds("18446744073709551615.9999999999"), Some(Duration::MAX));
    }

    #[test]
    fn invalid_numbers_are_none() {
        for text in
            ["", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", " 1", "١", "0x10", "1.2.3", "NaN"]
        {
            assert_eq!(seconds(text), None, "{text}");
        }
        assert!(is_zero("0") && is_zero("000"));
        assert!(!is_zero("") && !is_zero("1") && !is_zero("-0") && !is_zero("0.0"));
    }
}
