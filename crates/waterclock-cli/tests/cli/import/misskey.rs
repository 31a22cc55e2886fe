//! Limits of Misskey's endpoints.

use fastrand::Rng;

use super::{Imported, failed};

const MS: u64 = 1_000;

/// Misskey counts the calls of the last `duration`, refused ones too.
#[test]
fn random_calls_are_decided_as_in_misskey() {
    let mut rng = Rng::with_seed(0x0a15_5ce7);
    let (mut passed, mut refused) = (0, 0);
    for _ in 0..40 {
        let (max, duration) = (rng.u64(1..6), rng.u64(1..50) * 100);
        let imported = Imported::new(
            "misskey",
            &format!(r#"{{"a": {{"max": {max}, "duration": {duration}}}}}"#),
        );
        let mut at = 0;
        let calls: Vec<u64> = (0..100)
            .map(|_| {
                // Every call at an instant of its own.
                at += 1 + rng.u64(0..duration) * rng.u64(0..3);
                at
            })
            .collect();
        let mut expected = Vec::new();
        for (number, at) in calls.iter().enumerate() {
            let before = calls[..number].iter().filter(|call| *at < **call + duration).count();
            expected.push(before < usize::try_from(max).unwrap());
        }
        let checks: Vec<(u64, u64)> = calls.iter().map(|at| (at * MS, 1)).collect();
        let found = imported.admits("a", &checks);
        assert_eq!(found, expected, "{max} in {duration}: {calls:?}");
        passed += found.iter().filter(|is_allowed| **is_allowed).count();
        refused += found.iter().filter(|is_allowed| !**is_allowed).count();
    }
    assert!(passed > 500 && refused > 500, "{passed} passed, {refused} refused");
}

#[test]
fn intervals() {
    let imported = Imported::new(
        "misskey",
        r#"{"a": {"minInterval": 500}, "b": {"max": 3, "duration": 5000, "minInterval": 500}, "c": {"max": 100000, "duration": 1000}}"#,
    );
    let checks = |times: &[u64]| times.iter().map(|ms| (ms * MS, 1)).collect::<Vec<_>>();
    // A refused call starts the interval anew.
    assert_eq!(
        imported.admits("a", &checks(&[0, 500, 900, 1_399, 1_899])),
        [true, true, false, false, true]
    );
    assert_eq!(
        imported.admits("b", &checks(&[0, 400, 900, 1_400, 6_400])),
        [true, false, true, false, true]
    );
    imported.warns(&[
        "b: calls that come sooner than `minInterval` count towards `max`; in Misskey they do not",
        "c: its window is counted in 1,000 buckets: an exact one counts to 65,536 at most",
    ]);
}

#[test]
fn mistakes() {
    for (file, expected) in [
        (
            r#"{"a": {"max": 0, "duration": 1}}"#,
            "limits: `a`: `max` must be at least 1; to close an endpoint, refuse its calls before they are checked; found 0",
        ),
        (
            r#"{"a": {"max": 1.5, "duration": 1}}"#,
            "limits: `a`: `max` must be a whole number; found 1.5",
        ),
        (
            r#"{"a": {"max": 1, "duration": -1}}"#,
            "limits: `a`: `duration` must be a number, 0 or more and at most 100 years; found -1",
        ),
        (
            r#"{"a": {"max": 1, "duration": 1e30}}"#,
            "limits: `a`: `duration` must be a number, 0 or more and at most 100 years; found 1e+30",
        ),
    ] {
        assert_eq!(failed("misskey", file).stderr, format!("{expected}\n"), "{file}");
    }
}
