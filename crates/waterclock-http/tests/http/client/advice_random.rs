//! Random header fields never panic, and the fields of our own styles are understood.

use std::time::Duration;

use fastrand::Rng;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use waterclock::{Limit, Policy};
use waterclock_http::{HeaderFields, HeaderStyle, advised_wait};

use super::stage::START;
use crate::scene::Scene;

const NAMES: [&str; 5] =
    ["retry-after", "ratelimit", "x-ratelimit-remaining", "x-ratelimit-reset", "date"];

/// What such fields are made of, to get further than noise does.
const PIECES: [&str; 24] = [
    "0",
    "1",
    "5",
    "1735689660",
    "999999999999999",
    "18446744073709551616",
    "\"a\"",
    ";r=0",
    ";t=5",
    ";t=-1",
    ";r=",
    ", ",
    ",",
    ";",
    "(",
    ")",
    "\"",
    "\\",
    ":AA==:",
    "Wed, 01 Jan 2025 00:00:30 GMT",
    "Wed,",
    " ",
    ".",
    "-",
];

#[test]
fn garbage_is_survived_and_sense_is_found_in_it() {
    let mut rng = Rng::with_seed(0xad71ce);
    let mut waits = 0;
    for _ in 0..300_000 {
        let mut headers = HeaderMap::new();
        for _ in 0..rng.usize(1..4) {
            let value = if rng.u8(..4) == 0 { noise(&mut rng) } else { pieces(&mut rng) };
            let Ok(value) = HeaderValue::from_bytes(&value) else { continue };
            let name = NAMES[rng.usize(..NAMES.len())];
            headers.append(HeaderName::from_static(name), value);
        }
        let status = [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS][rng.usize(..2)];
        let wait = advised_wait(status, &headers, START);
        assert_ne!(wait, Some(Duration::ZERO), "{status} {headers:?}");
        waits += usize::from(wait.is_some());
    }
    assert!(waits > 5_000, "{waits} only: the cases are too wild to get anywhere");
}

fn noise(rng: &mut Rng) -> Vec<u8> {
    let length = rng.usize(..40);
    std::iter::repeat_with(|| rng.u8(..)).take(length).collect()
}

fn pieces(rng: &mut Rng) -> Vec<u8> {
    let length = rng.usize(1..5);
    let pieces = std::iter::repeat_with(|| PIECES[rng.usize(..PIECES.len())]).take(length);
    pieces.collect::<String>().into_bytes()
}

#[test]
fn a_client_that_waits_as_our_own_fields_advise_is_not_refused() {
    let mut rng = Rng::with_seed(0x0117);
    let styles =
        [HeaderStyle::RetryAfter, HeaderStyle::Ietf, HeaderStyle::Draft03, HeaderStyle::Legacy];
    let mut waits = [0; 4];
    for round in 0..4_000 {
        let (which, limit) = (round % 4, rng.u64(1..6));
        let policy = Policy::new("api", [Limit::per_second(limit).with_capacity(rng.u64(1..6))]);
        let policy = policy.expect("a policy");
        let scene = Scene::new(&[&policy]);
        for _ in 0..8 {
            let answer = scene.check(&policy, 1);
            let mut headers = HeaderMap::new();
            HeaderFields::new(styles[which], &policy, &answer).write_to(&mut headers);
            let is_refused = !answer.decision.is_allowed();
            let status = if is_refused { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
            let advised = advised_wait(status, &headers, START);
            assert!(advised.is_some() || !is_refused, "{headers:?}");
            if let Some(wait) = advised {
                scene.clock.advance(wait);
                let again = scene.check(&policy, 1);
                assert!(again.decision.is_allowed(), "{headers:?}");
                waits[which] += 1;
            }
        }
    }
    assert!(waits.iter().all(|waits| *waits > 500), "{waits:?}");
}
