//! Header fields of other servers: how long they ask a client to wait.
//!
//! The first line is a status and the time of day in seconds, the others are header fields.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use libfuzzer_sys::Corpus;
use waterclock::Timestamp;
use waterclock_http::advised_wait;

pub fn run(data: &[u8]) -> Corpus {
    let mut lines = data.split(|byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let mut numbers = first.split_whitespace();
    let status = numbers.next().and_then(|status| StatusCode::from_bytes(status.as_bytes()).ok());
    let status = status.unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    let now: u64 = numbers.next().and_then(|now| now.parse().ok()).unwrap_or(0);
    let now = Timestamp::from_micros(now.saturating_mul(1_000_000));
    let mut headers = HeaderMap::new();
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&line[colon + 1..])) {
            headers.append(name, value);
        }
    }
    let wait = advised_wait(status, &headers, now);
    assert_ne!(wait, Some(Duration::ZERO));
    // One valid number of seconds is what it says, whatever stands beside it.
    if status.is_client_error() || status.is_server_error() {
        let mut given = headers.get_all("retry-after").iter();
        if let (Some(only), None) = (given.next(), given.next())
            && let Some(seconds) =
                only.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok())
            && !only.as_bytes().contains(&b'+')
        {
            assert_eq!(wait, Some(Duration::from_secs(seconds)).filter(|wait| !wait.is_zero()));
        }
    }
    // Time passes: a wait until an instant becomes shorter, and no wait becomes longer.
    let later = Timestamp::from_nanos(now.as_nanos().saturating_add(1_000_000_000));
    let then = advised_wait(status, &headers, later);
    if !headers.contains_key("x-ratelimit-reset") {
        assert!(then.unwrap_or_default() <= wait.unwrap_or_default(), "{wait:?}, then {then:?}");
    }
    // Other header fields do not matter.
    headers.insert("x-other", HeaderValue::from_static("5"));
    assert_eq!(advised_wait(status, &headers, now), wait);
    Corpus::Keep
}
