//! `--json`: every command has it, and what it prints is JSON.

use serde_json::{Value, json};

use crate::support::Place;
use crate::words::commands;

#[test]
fn every_command_has_it() {
    for command in commands() {
        let help = Place::new().run(&[&command, "--help"]).stdout;
        let is_there = help.contains("--json");
        assert!(is_there, "{command}");
    }
}

#[test]
fn a_limit_explained() {
    let run = Place::new().run(&["explain", "100 per minute", "--json"]).ok();
    let said = run.json();
    assert_eq!(said["policy"], "example");
    let numbers = json!({"name": "gcra", "algorithm": "gcra", "limit": 100, "per_us": 60_000_000, "capacity": 100});
    assert_eq!(said["settings"]["limits"], json!([numbers]));
    assert_eq!(said["limits"][0]["bound"], "at most 100 + 100·D/1 min in any window of length D");
    let story = &said["story"];
    let first =
        json!({"at_us": 0, "passed": 100, "refused_by": ["gcra"], "retry_after_us": 600_000});
    assert_eq!(story["steps"][0], first);
    let third =
        json!({"at_us": 1_200_000, "passed": 1, "refused_by": ["gcra"], "retry_after_us": 600_000});
    assert_eq!(story["steps"][2], third);
    assert_eq!(story["fresh_at_us"], 63_000_000);
    assert_eq!((&story["most_at_once"], &story["unbounded"]), (&json!(100), &json!(false)));
}

#[test]
fn a_policy_explained() {
    let breaker = "{ algorithm = \"error-rate\", threshold = \"50%\", per = \"1m\", min_samples = 3, cool_down = \"5s\" }";
    let cases: [(&str, &str, Value); 2] = [
        (
            "{ algorithm = \"concurrency\", limit = 2, lease = \"9s\" }",
            "reserves_only",
            json!(true),
        ),
        (
            breaker,
            "errors",
            json!({"reported": 3, "refused_by": ["error-rate"], "retry_after_us": 5_000_000}),
        ),
    ];
    for (limit, field, expected) in cases {
        let run = Place::with_limits(limit).run(&["explain", "--json"]).ok();
        assert_eq!(run.json()["story"][field], expected, "{}", run.stdout);
    }
}

#[test]
fn a_schema_in_one_line() {
    let place = Place::new();
    let (pretty, one) = (place.run(&["schema"]), place.run(&["schema", "--json"]));
    assert_eq!(one.stdout.lines().count(), 1);
    assert_eq!(one.json(), pretty.json());
}

#[test]
fn an_import_with_its_warnings() {
    let yaml = "domain: d\ndescriptors:\n  - key: k\n    detailed_metric: true\n    rate_limit: { unit: second, requests_per_unit: 5 }\n";
    let place = Place::new().file("a.yaml", yaml);
    let plain = place.run(&["import", "a.yaml"]);
    let run = place.run(&["import", "--json", "a.yaml"]).ok();
    let said = run.json();
    assert_eq!(said["toml"], plain.stdout);
    let warning = &said["warnings"][0];
    let message = warning["message"].as_str().unwrap();
    assert!(message.contains("`detailed_metric`") && plain.stdout.contains(message), "{message}");
    assert_eq!(warning["places"], serde_json::json!(["a.yaml:3"]));
}
