//! What valid files mean, in words and in numbers.

use serde_json::{Value, json};

use crate::support::Place;

const SAMPLE: &str = include_str!("sample.toml");

fn normalised(limits: &str) -> Value {
    let run = Place::with_limits(limits).run(&["validate", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.json()["policies"]["p"]["limits"].clone()
}

#[test]
fn the_sample_of_the_manual() {
    let place = Place::with_config(SAMPLE);
    let run = place.run(&["validate", "waterclock.toml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.says(&["10 requests per 1 s on average and up to 20 at once"]);
    run.says(&["bound: at most 1000 in any 1 h."]);
    run.says(&["  tier pro: the same budget, scaled by factor 0.5."]);
    run.says(&["  tier staff: no limits;"]);
    assert!(!run.stderr.contains("not applied"), "{}", run.stderr);
    let json = place.run(&["validate", "--json"]).json();
    let expected = json!({ "mode": "binary", "key": ["client_ip", "user"], "exempt": ["10.0.0.0/8"],
      "local_for_us": 30_000_000,
      "overrides": { "alice": { "limits": [
        { "name": "gcra", "algorithm": "gcra", "limit": 100, "per_us": 1_000_000, "capacity": 100 },
    ]}}, "limits": [
        { "name": "burst", "algorithm": "gcra", "limit": 10, "per_us": 1_000_000, "capacity": 20 },
        { "name": "hourly", "algorithm": "rolling-window", "limit": 1000, "per_us": 3_600_000_000u64, "buckets": 3600,
          "min_interval_us": 100_000 },
    ], "tiers": { "staff": { "limits": [] }, "pro": { "limits": [
        { "name": "burst", "algorithm": "gcra", "limit": 10, "per_us": 500_000, "capacity": 40 },
        { "name": "hourly", "algorithm": "rolling-window", "limit": 2000, "per_us": 3_600_000_000u64, "buckets": 3600,
          "min_interval_us": 50_000 },
    ]}}});
    assert_eq!(json["policies"]["login"], expected);
}

/// JSON has the same content as the text.
#[test]
fn lists_and_rules_for_programs() {
    let config = r#"
[policies.zed]
key = ["user"]
headers = "none"
on_store_error = "deny"
factor = 0.5
limits = ["10/s"]
exempt = ["vip", "10.0.0.0/8"]
block = ["eve"]
overrides = { zoe = ["4/s"], alice = [{ name = "own", algorithm = "fixed-window", limit = 5, per = "1h" }] }
[policies.abe]
limits = ["9/s"]
[policies.bob]
local_for = "30s"
jitter = "12.5%"
limits = ["9/s"]
[[rules]]
domain = "edge"
descriptor = [{ key = "path", value = "/api/*" }, { key = "user" }]
policy = "zed"
[[rules]]
name = "rest"
domain = "edge"
descriptor = [{ key = "path", value = "/" }]
policy = "abe"
key = []
[[rules]]
domain = "edge"
descriptor = [{ key = "admin" }]
unlimited = true
replaces = ["rest"]
[[rules]]
domain = "edge"
descriptor = [{ key = "robot" }]
refuse = true
"#;
    let place = Place::with_config(config);
    let run = place.run(&["validate", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let json = run.json();
    let zed = &json["policies"]["zed"];
    for (name, value) in [
        ("key", json!(["user"])),
        ("headers", json!("none")),
        ("on_store_error", json!("deny")),
        ("factor", json!("0.5")),
        ("exempt", json!(["vip", "10.0.0.0/8"])),
        ("block", json!(["eve"])),
        ("mode", json!("binary")),
    ] {
        assert_eq!(zed[name], value, "{name}");
    }
    assert_eq!(
        zed["overrides"]["alice"]["limits"],
        json!([{ "name": "own", "algorithm": "fixed-window", "limit": 5, "per_us": 3_600_000_000u64 }])
    );
    assert!(zed["overrides"]["zoe"]["limits"][0].is_object());
    assert_eq!(json["policies"]["bob"]["local_for_us"], json!(30_000_000));
    assert_eq!(json["policies"]["bob"]["jitter"], json!("12.5%"));
    let text = place.run(&["validate"]).stdout;
    assert!(text.contains("Retry-After is spread upwards by up to 12.5%."), "{text}");
    let sentence = "While the store is unreachable, each node serves its share for 30 s; then every check is an error.";
    assert!(text.contains(sentence), "{text}");
    let abe = &json["policies"]["abe"];
    assert_eq!(abe.as_object().unwrap().keys().collect::<Vec<_>>(), ["limits", "mode"]);
    assert_eq!(
        json["rules"],
        json!([
            { "domain": "edge", "policy": "zed", "key": ["user"],
              "descriptor": [{ "key": "path", "value": "/api/*" }, { "key": "user" }] },
            { "domain": "edge", "policy": "abe", "key": [], "name": "rest",
              "descriptor": [{ "key": "path", "value": "/" }] },
            { "domain": "edge", "unlimited": true, "replaces": ["rest"],
              "descriptor": [{ "key": "admin" }] },
            { "domain": "edge", "refuse": true, "descriptor": [{ "key": "robot" }] },
        ])
    );
    // In the order of the file.
    assert!(run.stdout.find("\"zed\"") < run.stdout.find("\"abe\""), "{}", run.stdout);
    assert!(run.stdout.find("\"zoe\"") < run.stdout.find("\"alice\""), "{}", run.stdout);
}

#[test]
fn normalised_algorithms() {
    let cases = [
        (
            "\"10/s\"",
            json!({ "name": "gcra", "algorithm": "gcra", "limit": 10, "per_us": 1_000_000, "capacity": 10 }),
        ),
        (
            "{ algorithm = \"token-bucket\", limit = 1, per = \"1h30m\", overdraft = true, unit = \"bytes\", shadow = true }",
            json!({ "name": "token-bucket", "algorithm": "gcra", "limit": 1, "per_us": 5_400_000_000u64, "capacity": 1,
                    "overdraft": true, "unit": "bytes", "shadow": true }),
        ),
        (
            "{ algorithm = \"leaky-bucket\", capacity = 10, drip = 2 }",
            json!({ "name": "leaky-bucket", "algorithm": "leaky-bucket", "capacity": 10, "drip": 2, "every_us": 1_000_000 }),
        ),
        (
            "{ algorithm = \"fixed-window\", limit = 5, per = \"7d\" }",
            json!({ "name": "fixed-window", "algorithm": "fixed-window", "limit": 5, "per_us": 604_800_000_000u64 }),
        ),
        (
            "{ algorithm = \"fixed-window\", limit = 5, per = \"1m\", align = \"epoch\" }",
            json!({ "name": "fixed-window", "algorithm": "fixed-window", "limit": 5, "per_us": 60_000_000, "align": "epoch" }),
        ),
        (
            "{ algorithm = \"fixed-window\", limit = 5, per = \"month\", align = \"calendar\" }",
            json!({ "name": "fixed-window", "algorithm": "fixed-window", "limit": 5, "per": "month", "align": "calendar",
                    "timezone": "UTC" }),
        ),
        (
            "{ algorithm = \"min-interval\", every = \"250ms\" }",
            json!({ "name": "min-interval", "algorithm": "min-interval", "every_us": 250_000 }),
        ),
        (
            "{ algorithm = \"error-rate\", threshold = \"12.50%\", per = \"1m\", min_samples = 20, cool_down = \"5s\" }",
            json!({ "name": "error-rate", "algorithm": "error-rate", "threshold": "12.5%", "per_us": 60_000_000,
                    "min_samples": 20, "cool_down_us": 5_000_000 }),
        ),
        (
            "{ algorithm = \"concurrency\", limit = 8, lease = \"30s\" }",
            json!({ "name": "concurrency", "algorithm": "concurrency", "limit": 8, "lease_us": 30_000_000 }),
        ),
        (
            "{ algorithm = \"min-interval\", every = \"2 minutes\" }",
            json!({ "name": "min-interval", "algorithm": "min-interval", "every_us": 120_000_000 }),
        ),
        (
            "\"5/day quota\"",
            json!({ "name": "quota", "algorithm": "quota", "limit": 5, "per_us": 86_400_000_000u64 }),
        ),
        (
            "\"5/s even-slots\"",
            json!({ "name": "even-slots", "algorithm": "even-slots", "limit": 5, "per_us": 1_000_000 }),
        ),
    ];
    for (limit, expected) in cases {
        assert_eq!(normalised(limit), json!([expected]), "{limit}");
    }
}

#[test]
fn names_are_made_unique() {
    let limits = "\"1/s\", { algorithm = \"gcra\", limit = 1, per = \"1m\", name = \"gcra-2\" }, \"1/h\", \"1/d\"";
    let names: Vec<Value> =
        normalised(limits).as_array().unwrap().iter().map(|limit| limit["name"].clone()).collect();
    assert_eq!(names, ["gcra", "gcra-2", "gcra-3", "gcra-4"]);
}

#[test]
fn surprises() {
    let cases = [
        (
            "\"10/1h fixed-window\"",
            "window-edge",
            "limit `fixed-window` can admit 20 in a moment, at the edge between two windows of 1 h; gcra and rolling-window cannot",
        ),
        (
            "\"1/s\"",
            "capacity-one",
            "limit `gcra` has a capacity of 1: a request less than 1 s after another one is refused",
        ),
        (
            "\"10/s\", \"36010/h rolling-window\"",
            "idle-limit",
            "limit `rolling-window` never refuses: `gcra` is always at least as strict",
        ),
        (
            "\"10/s\", \"10/s\"",
            "idle-limit",
            "limit `gcra-2` never refuses: `gcra` is always at least as strict",
        ),
        (
            "\"10/s\", { algorithm = \"legacy\", max = 5 }",
            "disabled-limit",
            "old limit `legacy` is disabled: it needs `max` and `duration`, or `min_interval`",
        ),
    ];
    for (limits, code, expected) in cases {
        let place = Place::with_limits(limits);
        let limit = expected.split('`').nth(1).unwrap();
        let expected = format!("policy `p`: {expected}");
        let run = place.run(&["validate"]);
        assert_eq!((run.code, run.stderr), (Some(0), format!("warning: {expected}\n")), "{limits}");
        let warnings = place.run(&["validate", "--json"]).json()["warnings"].take();
        let [warning] = &warnings.as_array().unwrap()[..] else { panic!("{warnings}") };
        assert_eq!(
            (&warning["code"], &warning["policy"], &warning["limit"], &warning["message"]),
            (&json!(code), &json!("p"), &json!(limit), &json!(expected)),
            "{limits}"
        );
        assert_eq!(place.run(&["validate", "--deny-warnings"]).code, Some(1), "{limits}");
    }
}

#[test]
fn warnings_in_numbers() {
    let warning = |limits: &str| {
        let run = Place::with_limits(limits).run(&["validate", "--json"]);
        run.json()["warnings"][0].clone()
    };
    assert_eq!(warning("\"10/1h fixed-window\"")["units"], 20);
    assert_eq!(warning("\"10/s\", \"10/s\"")["because_of"], "gcra");
    // What is on another machine has a place.
    let place = Place::with_config(
        "[server]\nauth = [{ token = \"${NO_SUCH}\", roles = [\"check\"] }]\n[policies.p]\nlimits = [\"5/s\"]\n",
    );
    let run = place.run(&["validate", "--json"]);
    assert_eq!(run.json()["warnings"][0]["code"], "not-here", "{}", run.stdout);
    assert_eq!(place.run(&["validate"]).code, Some(0));
    assert_eq!(place.run(&["validate", "--deny-warnings"]).code, Some(1));
}

#[test]
fn denied_warnings_leave_errors_as_they_are() {
    assert_eq!(Place::with_limits("\"10/s\"").run(&["validate", "--deny-warnings"]).code, Some(0));
    let run = Place::with_limits("\"10/parsec\"").run(&["validate", "--deny-warnings"]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
}

#[test]
fn nothing_to_warn_about() {
    for limits in ["\"10/s\", \"36009/h rolling-window\"", "\"10/s\", \"100/m\"", "\"100/m quota\""]
    {
        let run = Place::with_limits(limits).run(&["validate", "--json"]);
        assert_eq!(run.stderr, "", "{limits}");
        assert_eq!(run.json().get("warnings"), None, "{limits}");
    }
}
