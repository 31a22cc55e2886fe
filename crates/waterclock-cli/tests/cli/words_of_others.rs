//! Words of other rate limiters: errors know ours.

use crate::support::Place;

#[test]
fn hints() {
    for (limit, hint) in [
        (
            "algorithm = \"gcra\", limit = 1, per = \"1s\", burst = 4",
            "`burst` in a `gcra` limit; did you mean `capacity` (= burst + 1 in redis-cell and",
        ),
        (
            "algorithm = \"gcra\", limit = 1, per = \"1s\", max_burst = 4",
            "did you mean `capacity` (= max_burst + 1)?",
        ),
        (
            "algorithm = \"fixed-window\", maxInInterval = 5, per = \"1s\"",
            "unknown key `maxInInterval` in a `fixed-window` limit; did you mean `limit`?",
        ),
        (
            "algorithm = \"rolling-window\", maxInInterval = 5, interval = 1000",
            "unknown key `interval` in a `rolling-window` limit; did you mean `per`?",
        ),
        ("algorithm = \"fixed-window\", limit = 5, window = \"1s\"", "did you mean `per`?"),
        (
            "algorithm = \"fixed-window\", points = 5, duration = \"1s\"",
            "unknown key `points` in a `fixed-window` limit; did you mean `limit`?",
        ),
        (
            "algorithm = \"fixed-window\", points = 5, duration = \"1s\"",
            "`duration` does not belong to `fixed-window`; did you mean `per`?",
        ),
        (
            "algorithm = \"fixed-window\", max = 5, per = \"1s\"",
            "`max` does not belong to `fixed-window`; did you mean `limit`?",
        ),
        (
            "algorithm = \"gcra\", requests_per_unit = 5, per = \"1m\"",
            "did you mean `limit` (with `per` for its unit)?",
        ),
        (
            "algorithm = \"sliding-window\", limit = 5, windowMs = 1000",
            "did you mean `per` (as a duration such as",
        ),
        ("algorithm = \"min-interval\", interval = \"1s\"", "did you mean `every`?"),
        (
            "algorithm = \"rolling-window\", limit = 5, per = \"1s\", minDifference = 10",
            "did you mean `min_interval`?",
        ),
        (
            "algorithm = \"time-bucket\", limit = 5, per = \"1s\"",
            "unknown algorithm \"time-bucket\"; did you mean `fixed-window`?",
        ),
        ("algorithm = \"sliding-log\", limit = 5, per = \"1s\"", "did you mean `rolling-window`?"),
        (
            "type = \"gcra\", limit = 5, per = \"1s\"",
            "unknown key `type` in a limit; did you mean `algorithm`?",
        ),
    ] {
        let run = Place::with_limits(&format!("{{ {limit} }}")).run(&["validate"]);
        assert_eq!(run.code, Some(2), "{limit}");
        assert!(run.stderr.contains(hint), "{limit}: {}", run.stderr);
    }
    let run = Place::with_limits("\"10/s time-bucket\"").run(&["validate"]);
    run.fails("did you mean `fixed-window`?");
}
