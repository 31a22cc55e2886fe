//! Limits of what is held at once, and of the share of errors: what the commands make of them.

use crate::support::Place;

const HOLDERS: &str = "{ algorithm = \"concurrency\", limit = 3, lease = \"30s\" }";
const ERRORS: &str = "{ algorithm = \"error-rate\", threshold = \"50%\", per = \"10s\", min_samples = 4, cool_down = \"2s\" }";

#[test]
fn in_plain_english() {
    for (limits, parts) in [
        (
            HOLDERS,
            [
                "up to 3 requests held at the same time, by reservations only, each for 30 s at most.",
                "bound: at most 3 at any instant.",
            ],
        ),
        (
            ERRORS,
            [
                "everything, until 50% or more of at least 4 reports within 10 s are errors; then nothing for 2 s",
                "bound: none while it is closed; while it is open, one admission in each 2 s.",
            ],
        ),
    ] {
        let run = Place::with_limits(limits).run(&["validate", "waterclock.toml"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        for part in parts {
            assert!(run.stdout.contains(part), "{part}\n{}", run.stdout);
        }
    }
}

#[test]
fn their_stories() {
    let run = Place::with_limits(HOLDERS).run(&["explain", "-c", "waterclock.toml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.says(&["a check never passes"]);
    let run = Place::with_limits(ERRORS).run(&["explain", "-c", "waterclock.toml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let story = "once 4 errors are reported: refused by error-rate, a probe passes in 2 s";
    run.says(&[story]);
}

#[test]
fn a_check_of_what_only_a_reservation_holds() {
    let place = Place::with_limits(HOLDERS);
    let run = place.run(&["check", "p", "alice", "-c", "waterclock.toml"]);
    assert_eq!(run.code, Some(2), "{}", run.stdout);
    run.warns("only a reservation can hold");
    let replay = ["replay", "-c", "waterclock.toml", "--format", "jsonl", "-"];
    let run = place.run_with_input(&replay, "{\"t_us\":0}\n");
    assert_eq!(run.code, Some(2), "{}", run.stdout);
    run.warns("only a reservation can hold");
}

#[test]
fn a_rule_for_it_is_a_surprise() {
    let rule = "[[rules]]\ndomain = \"d\"\ndescriptor = [{ key = \"a\" }]\npolicy = \"p\"\n";
    let place = Place::with_config(&format!("[policies.p]\nlimits = [{HOLDERS}]\n{rule}"));
    let run = place.run(&["validate", "waterclock.toml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.warns("rule d [a] always fails: policy `p`");
}

#[test]
fn a_breaker_in_virtual_time() {
    let trace = r#"
        {"t_us":0,"op":"report","outcome":"ok"}
        {"t_us":1000,"op":"report","outcome":"ok"}
        {"t_us":2000,"op":"report","outcome":"error"}
        {"t_us":3000,"op":"report","outcome":"error"}
        {"t_us":4000}
        {"t_us":2002999}
        {"t_us":2003000}
        {"t_us":2003001}
        {"t_us":2004000,"op":"report","outcome":"ok"}
        {"t_us":2004001}
    "#;
    let lines = Place::with_limits(ERRORS).replay(trace);
    let allowed: Vec<bool> = lines.iter().map(|line| line["allowed"] == true).collect();
    let expected = [true, true, true, false, false, false, true, false, true, true];
    assert_eq!(allowed, expected);
    assert_eq!(lines[0]["op"], "report");
    assert_eq!(lines[3]["retry_after_us"], 2_000_000);
    assert_eq!(lines[4]["retry_after_us"], 1_999_000);
    assert_eq!(lines[4]["refused_by"][0], "error-rate");
    assert_eq!(lines[4].get("op"), None);
    assert_eq!(lines[9]["limit"], serde_json::Value::Null);
}
