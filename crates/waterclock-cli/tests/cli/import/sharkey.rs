//! Limits of Sharkey's endpoints.

use fastrand::Rng;

use super::{Imported, failed};

const MS: u64 = 1_000;

#[test]
fn buckets_and_windows() {
    let imported = Imported::new(
        "sharkey",
        r#"{
            "drive/files": { "type": "bucket", "size": 3, "dripRate": 2000, "dripSize": 2 },
            "notes/create": { "duration": 4000, "max": 2 },
            "i/pin": { "minInterval": 500 },
            "meta": null
        }"#,
    );
    imported.warns(&[]);
    // Three at once, and two more every two seconds.
    let checks: Vec<(u64, u64)> =
        [0, 0, 0, 1, 1_999, 2_000, 2_000, 2_000, 4_000].map(|ms| (ms * MS, 1)).into();
    assert_eq!(
        imported.admits("drive/files", &checks),
        [true, true, true, false, false, true, true, false, true]
    );
    // Two at once, and one more every two seconds.
    let checks: Vec<(u64, u64)> = [0, 0, 1_999, 2_000, 2_001, 4_000].map(|ms| (ms * MS, 1)).into();
    assert_eq!(imported.admits("notes/create", &checks), [true, true, false, true, false, true]);
    let checks: Vec<(u64, u64)> = [0, 499, 500].map(|ms| (ms * MS, 1)).into();
    assert_eq!(imported.admits("i/pin", &checks), [true, false, true]);
    imported.has(&["[policies.\"drive/files\"] # limits", "headers = \"legacy\""]);
    assert!(!imported.text.contains("meta"));
}

/// A bucket loses `dripSize` units every `dripRate` from its first call on, until it is empty.
#[test]
fn random_calls_fill_a_bucket_as_in_sharkey() {
    let mut rng = Rng::with_seed(0x05a4_eb1c);
    let (mut passed, mut refused) = (0, 0);
    for _ in 0..40 {
        let (size, rate, drip) = (rng.u64(1..8), rng.u64(1..3_000), rng.u64(1..4));
        let imported = Imported::new(
            "sharkey",
            &format!(
                r#"{{"a": {{"type": "bucket", "size": {size}, "dripRate": {rate}, "dripSize": {drip}}}}}"#
            ),
        );
        let (mut at, mut level, mut since) = (0, 0_u64, 0);
        let (mut checks, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            at += rng.u64(0..rate);
            let drips = (at - since) / rate;
            level = level.saturating_sub(drips * drip);
            since = if level == 0 { at } else { since + drips * rate };
            let is_allowed = level < size;
            level += u64::from(is_allowed);
            checks.push((at * MS, 1));
            expected.push(is_allowed);
        }
        let found = imported.admits("a", &checks);
        assert_eq!(found, expected, "{size}, {drip} every {rate} ms: {checks:?}");
        passed += found.iter().filter(|is_allowed| **is_allowed).count();
        refused += found.iter().filter(|is_allowed| !**is_allowed).count();
    }
    assert!(passed > 500 && refused > 500, "{passed} passed, {refused} refused");
}

/// Each limit of an array has its name in `key`.
#[test]
fn names() {
    let long = "x".repeat(70);
    let imported = Imported::new(
        "sharkey",
        &format!(
            r#"[{{"key": "a b", "size": 1}}, {{"key": "a-b", "size": 2, "limit": 1}}, {{"key": "{long}", "size": 3}}]"#
        ),
    );
    imported.has(&["[policies.a-b] # limits", "[policies.a-b-2] # limits"]);
    assert!(imported.text.contains(&format!("[policies.{}]", "x".repeat(64))));
    assert_eq!(imported.warnings.len(), 4, "{:?}", imported.warnings);
    assert_eq!(imported.warnings[2], "a-b: `limit` is no part of a limit and is left out");
    let run = failed("sharkey", r#"[{"size": 1}]"#);
    assert_eq!(run.stderr, "limits: limiter 1: `key` is needed: it names the limit\n");
}

#[test]
fn what_limits_nothing() {
    let run = failed("sharkey", r#"{"a": {"max": 3}, "b": {"duration": 0, "max": 3}}"#);
    assert_eq!(
        run.stderr,
        "warning: a, b: has neither `size`, nor `max` and `duration`, nor `minInterval`, and so limits nothing; it is left out\n\
         no limit is left: nothing to import\n"
    );
    let run = failed("sharkey", r#"{"a": {"type": "bucket", "size": 0}}"#);
    assert_eq!(run.stderr, "the imported configuration:7:37: `size` must be at least 1; found 0\n");
}
