//! The old three-number limits, as `validate --json` shows them.

use serde_json::{Value, json};

use crate::support::Place;

fn told(numbers: &str) -> Value {
    let place =
        Place::with_limits(&format!("{{ algorithm = \"legacy\", name = \"old\"{numbers} }}"));
    let run = place.run(&["validate", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.json()["policies"]["p"]["limits"].clone()
}

fn bucket(capacity: u64, drip: u64, every_us: u64) -> Value {
    json!({ "name": "old", "algorithm": "leaky-bucket", "capacity": capacity, "drip": drip, "every_us": every_us })
}

fn with_gap(mut bucket: Value, min_interval_us: u64) -> Value {
    bucket["min_interval_us"] = json!(min_interval_us);
    bucket
}

#[test]
fn translated() {
    assert_eq!(told(", max = 10, duration = 1000"), json!([bucket(10, 1, 100_000)]));
    assert_eq!(told(", max = 10, duration = \"1s\""), json!([bucket(10, 1, 100_000)]));
    assert_eq!(told(", max = 3, duration = 1000"), json!([bucket(3, 1, 333_000)]));
    assert_eq!(
        told(", max = 10, duration = 1000, min_interval = 200"),
        json!([with_gap(bucket(10, 2, 200_000), 200_000)])
    );
    assert_eq!(
        told(", max = 10, duration = 1000, min_interval = 0"),
        json!([bucket(10, 1, 100_000)])
    );
    assert_eq!(told(", min_interval = 250"), json!([bucket(1, 1, 250_000)]));
}

#[test]
fn disabled() {
    for numbers in
        ["", ", max = 5", ", duration = 1000", ", max = 5, duration = 0", ", min_interval = 0"]
    {
        assert_eq!(told(numbers), json!([]), "{numbers}");
    }
}

#[test]
fn wrong() {
    let cases = [
        ("max = 0, duration = 1000", "`max` must be at least 1; found 0"),
        ("max = -3, duration = 1000", "`max` must not be negative; found -3"),
        ("max = 3, duration = -1", "`duration` must not be negative; found -1"),
        (
            "max = 3, duration = 1000, min_interval = -1",
            "`min_interval` must not be negative; found -1",
        ),
        (
            "max = 3, duration = nan",
            "`duration` must be a finite number of at most 18 digits; found nan",
        ),
        (
            "max = 3, duration = 1000, limit = 3",
            "`limit` does not belong to `legacy`, which takes `max`, `duration` and `min_interval`",
        ),
        (
            "max = 3, duration = 1000, minInterval = 3",
            "unknown key `minInterval` in a `legacy` limit; did you mean `min_interval`?",
        ),
    ];
    for (numbers, expected) in cases {
        let run = Place::with_limits(&format!("{{ algorithm = \"legacy\", {numbers} }}"))
            .run(&["validate"]);
        assert_eq!(run.code, Some(2), "{numbers}");
        assert!(run.stderr.trim_end().ends_with(expected), "{numbers}: {}", run.stderr);
    }
}
