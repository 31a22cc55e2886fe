//! Options of rate-limiter-flexible.

use fastrand::Rng;

use super::{Imported, failed};

const S: u64 = 1_000_000;

/// rate-limiter-flexible counts all points since the first call of a window, refused ones too.
#[test]
fn random_calls_are_decided_as_in_the_library() {
    let mut rng = Rng::with_seed(0x00f1_e81b);
    let (mut passed, mut refused) = (0, 0);
    for _ in 0..40 {
        let (points, duration) = (rng.u64(1..8), rng.u64(1..6));
        let imported = Imported::new(
            "rate-limiter-flexible",
            &format!(r#"{{"points": {points}, "duration": {duration}}}"#),
        );
        let (mut at, mut ends, mut consumed) = (0, 0, 0);
        let (mut checks, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            at += rng.u64(0..S);
            let cost = rng.u64(1..=points.min(3));
            if at >= ends {
                (ends, consumed) = (at + duration * S, 0);
            }
            consumed += cost;
            checks.push((at, cost));
            expected.push(consumed <= points);
        }
        let found = imported.admits("rlflx", &checks);
        assert_eq!(found, expected, "{points} in {duration} s: {checks:?}");
        passed += found.iter().filter(|is_allowed| **is_allowed).count();
        refused += found.iter().filter(|is_allowed| !**is_allowed).count();
    }
    assert!(passed > 500 && refused > 500, "{passed} passed, {refused} refused");
}

#[test]
fn every_option_is_mapped_or_said() {
    let imported = Imported::new(
        "rate-limiter-flexible",
        r#"{
            "login": { "points": 5, "duration": 0.5, "blockDuration": 900, "keyPrefix": "l", "execEvenly": true },
            "api": { "points": 10, "duration": 0, "blockDuration": 0, "execEvenly": false, "insuranceLimiter": {}, "storeClient": {}, "inMemoryBlockOnConsumed": 10, "colour": 1 },
            "closed": { "points": 0, "duration": 1 }
        }"#,
    );
    imported.has(&[
        "limits = [{ algorithm = \"fixed-window\", limit = 5, per = \"500ms\" }]",
        "limits = [{ algorithm = \"fixed-window\", limit = 10, per = \"36525d\" }]",
    ]);
    imported.warns(&[
        "login: `blockDuration` has no counterpart: a refused key waits for the end of its window. For a longer penalty, block the key for a time (`waterclock override set … --block --expires-in`)",
        "login: `keyPrefix` is not needed: a policy's keys are its own",
        "login: `execEvenly` has no counterpart: ask with `wait`, which holds a call until it passes, and use `gcra` with `capacity = 1` for even spacing",
        "api: `insuranceLimiter` is `on_store_error`: what happens while the store is unreachable, by default the server's own share of each limit",
        "api: `storeClient` is a setting of the server: `[store] url` says where state lives",
        "api: `inMemoryBlockOnConsumed` is not needed: the server refuses from memory",
        "api: `colour` has no counterpart and is left out",
        "api: `duration` 0 never ends; here the window lasts 100 years",
        "closed: `points` 0 refuses everything; it is left out, because a limit is at least 1: refuse such requests before they are checked",
    ]);
}

#[test]
fn a_prefix_names_the_policy() {
    let imported = Imported::new(
        "rate-limiter-flexible",
        r#"[{"points": 1, "duration": 1, "keyPrefix": "login"}, {"points": 1, "duration": 1}]"#,
    );
    imported.has(&["[policies.login] # limits", "[policies.rlflx] # limits"]);
    imported.warns(&[]);
}

#[test]
fn mistakes() {
    for (file, expected) in [
        (r#"{"duration": 1}"#, "limits: limiter 1: `points` is needed"),
        (r#"{"a": {"points": 1}}"#, "limits: `a`: `duration` is needed"),
        (
            r#"{"points": "5", "duration": 1}"#,
            "limits: limiter 1: `points` must be a whole number; found \"5\"",
        ),
    ] {
        assert_eq!(failed("rate-limiter-flexible", file).stderr, format!("{expected}\n"), "{file}");
    }
    let run = failed("rate-limiter-flexible", r#"{"points": 9007199254740992, "duration": 1}"#);
    assert!(run.stderr.starts_with("the imported configuration:"), "{}", run.stderr);
}
