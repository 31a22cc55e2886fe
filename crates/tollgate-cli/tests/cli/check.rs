//! One decision and its exit code.

use serde_json::json;

use crate::support::Place;

#[test]
fn exit_codes() {
    let place = Place::with_limits("\"5/s\"");
    assert_eq!(place.run(&["check", "p", "alice"]).code, Some(0));
    let refused = place.run(&["check", "p", "alice", "--cost", "6"]);
    assert_eq!(refused.code, Some(1));
    assert_eq!(
        refused.stdout,
        "refused by gcra; it will never pass: the cost is above the limit\n"
    );
    for bad in [
        &["check", "q", "alice"][..],
        &["check", "p"],
        &["check", "p", "a", "--cost", "-1"],
        &["check", "p", "a", "--cost", "x"],
    ] {
        assert_eq!(place.run(bad).code, Some(2), "{bad:?}");
    }
}

#[test]
fn a_partial_grant_is_no_refusal() {
    let place = Place::with_config("[policies.p]\nmode = \"nary\"\nlimits = [\"5/s\"]");
    let run = place.run(&["check", "p", "alice", "--cost", "6"]);
    assert_eq!(run.code, Some(0));
    assert!(run.stdout.starts_with("allowed in part: 5 granted"), "{}", run.stdout);
}

#[test]
fn the_decision_as_json() {
    let place = Place::with_limits(
        "{ algorithm = \"gcra\", limit = 10, per = \"1s\", name = \"burst\" }, \"5/1h rolling-window\"",
    );
    let run = place.run(&["check", "p", "alice", "--cost", "2", "--json"]);
    let expected = json!({
        "key": "alice", "cost": 2, "allowed": true, "granted": 2, "limit": 5, "remaining": 3,
        "retry_after_us": 0, "next_unit_us": 3_600_000_000u64, "reset_after_us": 3_600_000_000u64, "refused_by": [],
        "policy": "p", "source": "authoritative",
        "limits": [
            { "name": "burst", "allowed": true, "limit": 10, "remaining": 8, "retry_after_us": 0,
              "next_unit_us": 100_000, "reset_after_us": 200_000 },
            { "name": "rolling-window", "allowed": true, "limit": 5, "remaining": 3, "retry_after_us": 0,
              "next_unit_us": 3_600_000_000u64, "reset_after_us": 3_600_000_000u64 },
        ],
    });
    assert_eq!(run.json(), expected);
}
