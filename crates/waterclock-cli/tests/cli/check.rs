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
    for bad in [&["check", "q", "alice"][..], &["check", "p"]] {
        assert_eq!(place.run(bad).code, Some(2), "{bad:?}");
    }
}

#[test]
fn the_code_does_not_need_a_reader() {
    let place = Place::with_limits("\"5/s\"");
    for (cost, code) in [("5", 0), ("6", 1)] {
        for more in [&[][..], &["--json"]] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let arguments = [&["check", "p", "alice", "--cost", cost], more].concat();
            let output = place.command(&arguments).stdout(writer).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{arguments:?}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        }
    }
}

#[test]
fn a_cost_that_is_none() {
    let place = Place::with_limits("\"5/s\"");
    let cases: [(&[&str], &str); 5] = [
        (&["--cost", "-1"], "from 0; found -1"),
        (&["--cost=-1"], "from 0; found -1"),
        (&["--cost=1.5"], "from 0; found 1.5"),
        (&["--cost", "x"], "from 0; found x"),
        (
            &["--cost", "18446744073709551616"],
            "from 0 to 18446744073709551615; found 18446744073709551616",
        ),
    ];
    for (cost, expected) in cases {
        let run = place.run(&[&["check", "p", "a"], cost].concat());
        let expected = format!("--cost must be a whole number {expected}\n");
        assert_eq!((run.code, run.stderr), (Some(2), expected), "{cost:?}");
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
        "next_same_us": 0,
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
