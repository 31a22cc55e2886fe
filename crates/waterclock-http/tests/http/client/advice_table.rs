//! What servers say, and how long that is.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use waterclock_http::advised_wait;

use super::stage::START;

/// Status, fields, and milliseconds to wait. It is 2025-01-01T00:00:00Z, Unix time 1735689600.
type Case = (u16, &'static [(&'static str, &'static str)], Option<u64>);

const RETRY_AFTER: &[Case] = &[
    (429, &[("retry-after", "5")], Some(5_000)),
    (503, &[("retry-after", "120")], Some(120_000)),
    (403, &[("retry-after", "7")], Some(7_000)),
    (429, &[("retry-after", " 5 ")], Some(5_000)),
    (429, &[("retry-after", "1.5")], Some(1_500)),
    (429, &[("retry-after", "0")], None),
    (429, &[("retry-after", "")], None),
    (429, &[("retry-after", "-5")], None),
    (429, &[("retry-after", "+5")], None),
    (429, &[("retry-after", "5s")], None),
    (429, &[("retry-after", "soon")], None),
    (429, &[("retry-after", "5, 6")], None),
    (429, &[("retry-after", "soon"), ("retry-after", "3"), ("retry-after", "2")], Some(3_000)),
    // About one resource, or one redirection, and not about the server.
    (200, &[("retry-after", "5")], None),
    (202, &[("retry-after", "5")], None),
    (301, &[("retry-after", "5")], None),
    // The three spellings of a date.
    (429, &[("retry-after", "Wed, 01 Jan 2025 00:00:30 GMT")], Some(30_000)),
    (429, &[("retry-after", "Wednesday, 01-Jan-25 00:00:30 GMT")], Some(30_000)),
    (429, &[("retry-after", "Wed Jan  1 00:00:30 2025")], Some(30_000)),
    (429, &[("retry-after", "Tue, 31 Dec 2024 23:59:59 GMT")], None),
    (429, &[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")], None),
    (429, &[("retry-after", "Wed, 32 Jan 2025 00:00:30 GMT")], None),
    (429, &[("retry-after", "2025-01-01T00:00:30Z")], None),
    // By the server's clock, if it says what that is.
    (
        429,
        &[
            ("retry-after", "Wed, 01 Jan 2025 06:00:30 GMT"),
            ("date", "Wed, 01 Jan 2025 06:00:10 GMT"),
        ],
        Some(20_000),
    ),
    (429, &[("retry-after", "Wed, 01 Jan 2025 00:00:30 GMT"), ("date", "today")], Some(30_000)),
];

const RATE_LIMIT: &[Case] = &[
    (200, &[("ratelimit", r#""burst";r=0;t=5"#)], Some(5_000)),
    (429, &[("ratelimit", r#""burst";r=0;t=5"#)], Some(5_000)),
    (200, &[("ratelimit", r#""burst";r=1;t=5"#)], None),
    (200, &[("ratelimit", r#""burst";r=0"#)], None),
    (200, &[("ratelimit", r#""burst";t=5"#)], None),
    (200, &[("ratelimit", r#""burst";r=0;t=0"#)], None),
    (200, &[("ratelimit", r#""burst";r=0;t=-5"#)], None),
    (200, &[("ratelimit", r#""burst";r=0;t=2.5"#)], None),
    (200, &[("ratelimit", r#""burst";r="0";t=5"#)], None),
    (200, &[("ratelimit", r#""burst";t=5;pk=:c2VjcmV0:;r=0"#)], Some(5_000)),
    (200, &[("ratelimit", r#""burst";r=3;t=9;r=0;t=5"#)], Some(5_000)),
    (200, &[("ratelimit", r#""a";r=0;t=5, "b";r=0;t=60, "c";r=9;t=99"#)], Some(60_000)),
    (200, &[("ratelimit", r#""a";r=0;t=5"#), ("ratelimit", r#""b";r=0;t=8"#)], Some(8_000)),
    (200, &[("ratelimit", r#""quo\"te, \\;r=9";r=0;t=5"#)], Some(5_000)),
    (200, &[("ratelimit", "default;r=0;t=5")], Some(5_000)),
    (200, &[("ratelimit", "5;r=0;t=5")], None),
    (200, &[("ratelimit", r#"("a" "b");r=0;t=5"#)], None),
    (200, &[("ratelimit", r#""open;r=0;t=5"#)], None),
    (200, &[("ratelimit", r#""a";r=0;t=5,"#)], None),
    (200, &[("ratelimit", "limit=10, remaining=0, reset=5")], None),
    (200, &[("ratelimit", r#""a";r=0;t=9999999999999999"#)], None),
    // Retry-After takes precedence, unless it makes no sense.
    (429, &[("ratelimit", r#""a";r=0;t=60"#), ("retry-after", "5")], Some(5_000)),
    (429, &[("ratelimit", r#""a";r=0;t=60"#), ("retry-after", "soon")], Some(60_000)),
    (200, &[("ratelimit", r#""a";r=0;t=60"#), ("retry-after", "5")], Some(60_000)),
];

const X_RATE_LIMIT: &[Case] = &[
    (200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "5")], Some(5_000)),
    (200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "0.250")], Some(250)),
    (200, &[("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", "5")], None),
    (200, &[("x-ratelimit-reset", "5")], None),
    (200, &[("x-ratelimit-remaining", "0")], None),
    (429, &[("x-ratelimit-reset", "5")], Some(5_000)),
    (429, &[("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", "5")], Some(5_000)),
    (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1735689660")], Some(60_000)),
    (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1735689600")], None),
    (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1735689599")], None),
    (403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1735689600250")], Some(250)),
    (
        200,
        &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1000000000")],
        Some(10u64.pow(12)),
    ),
    (200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1000000001")], None),
    (200, &[("x-ratelimit-remaining", "none"), ("x-ratelimit-reset", "5")], None),
    (200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "tomorrow")], None),
    (200, &[("x-ratelimit-remaining", "-0"), ("x-ratelimit-reset", "5")], None),
    (
        200,
        &[
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "5"),
            ("ratelimit", r#""a";r=0;t=2"#),
        ],
        Some(2_000),
    ),
    (200, &[], None),
    (429, &[], None),
];

#[test]
fn every_field_means_what_it_says() {
    let cases = [RETRY_AFTER, RATE_LIMIT, X_RATE_LIMIT];
    for (status, fields, wait) in cases.iter().copied().flatten() {
        let mut headers = HeaderMap::new();
        for (name, value) in *fields {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let status = StatusCode::from_u16(*status).expect("a status");
        let advised = advised_wait(status, &headers, START);
        assert_eq!(advised, wait.map(Duration::from_millis), "{status} {fields:?}");
    }
}

#[test]
fn numbers_beyond_all_measure_are_long_waits() {
    let far = "99999999999999999999999999999999";
    for (status, name) in [(429, "retry-after"), (429, "x-ratelimit-reset")] {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(far));
        let status = StatusCode::from_u16(status).expect("a status");
        let wait = advised_wait(status, &headers, START).expect("a wait");
        assert!(wait > Duration::from_secs(1_000_000_000), "{name}: {wait:?}");
    }
}

#[test]
fn bytes_that_are_no_text_are_ignored() {
    let mut headers = HeaderMap::new();
    for name in ["retry-after", "ratelimit", "x-ratelimit-remaining", "x-ratelimit-reset", "date"] {
        let value = HeaderValue::from_bytes(b"5\xff\xfe").expect("a value");
        headers.insert(HeaderName::from_static(name), value);
    }
    assert_eq!(advised_wait(StatusCode::TOO_MANY_REQUESTS, &headers, START), None);
}
