//! Every face, counted twice: by the load and by the server.

use super::{bench, counted, pair, report, serve};

#[test]
fn a_known_limit_is_met_exactly() {
    let serving = serve();
    // Ten keys of five each, and far more than that is asked.
    for (face, more) in [
        ("http", &["--policy", "p"][..]),
        ("resp", &["--policy", "p", "--pipeline", "8"]),
        ("grpc", &["--domain", "d", "--descriptor", "user={key}"]),
    ] {
        let arguments = [&["--keys", "10", "--requests", "2000"], more].concat();
        let report = report(&serving.url(face), &arguments);
        let (allowed, refused) = pair(&report);
        // The Redis protocol meets the keys that HTTP has spent; gRPC makes others of them.
        let expected = if face == "resp" { 0 } else { 50 };
        assert_eq!((allowed, refused), (expected, 2_000 - expected), "{face}");
        assert_eq!(counted(&serving, "p", face), (allowed, refused), "{face}");
        assert_eq!((&report["requests"], &report["errors"]), (&2_000.into(), &0.into()));
        assert_eq!((&report["face"], &report["decisions"]), (&face.into(), &2_000.into()));
    }
}

#[test]
fn a_while_of_everything() {
    let serving = serve();
    for (face, more, per_request) in [
        ("http", &[][..], 1),
        ("http", &["--batch", "16"], 16),
        ("resp", &["--pipeline", "16", "--connections", "3"], 1),
    ] {
        let before = counted(&serving, "wide", face);
        let arguments = [&["--policy", "wide", "--duration", "300ms"], more].concat();
        let report = report(&serving.url(face), &arguments);
        let after = counted(&serving, "wide", face);
        assert_eq!(pair(&report), (after.0 - before.0, 0), "{face} {more:?}");
        assert!(after.0 > before.0, "{face}: nothing happened");
        let [requests, decisions] =
            ["requests", "decisions"].map(|name| report[name].as_u64().unwrap());
        assert_eq!(decisions, requests * per_request, "{face} {more:?}");
    }
}

#[test]
fn a_cost_and_a_look() {
    let serving = serve();
    let report = |cost| {
        let arguments = ["--policy", "p", "--keys", "1", "--requests", "10", "--cost", cost];
        report(&serving.url("http"), &arguments)
    };
    assert_eq!(pair(&report("0")), (10, 0));
    assert_eq!(pair(&report("2")), (2, 8));
}

#[test]
fn a_part_is_a_refusal_in_the_redis_protocol() {
    for (face, more, expected) in [
        ("http", &["--policy", "part"][..], (1, 9)),
        ("resp", &["--policy", "part"], (0, 10)),
        ("grpc", &["--domain", "d", "--descriptor", "guest={key}"], (1, 9)),
    ] {
        let serving = serve();
        let cost = ["--cost", "6", "--keys", "1", "--requests", "10", "--connections", "1"];
        let run = report(&serving.url(face), &[&cost[..], more].concat());
        assert_eq!(pair(&run), expected, "{face}");
        assert_eq!(counted(&serving, "part", face), (1, 9), "{face}");
    }
}

#[test]
fn a_rate_is_held_about() {
    let serving = serve();
    for face in ["http", "resp"] {
        let arguments = ["--policy", "wide", "--rate", "200", "--duration", "1s"];
        let run = bench(&serving.url(face), &[&arguments[..], &["--json"]].concat());
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let requests = run.json()["requests"].as_u64().unwrap();
        // Never ahead of the schedule; behind only where the machine is very busy.
        assert!((100..=201).contains(&requests), "{face}: {requests}");
    }
    // Less than a pipelineful is due at any time, and goes out all the same.
    let arguments = ["--policy", "wide", "--rate", "100", "--pipeline", "1024", "--duration", "1s"];
    let run = bench(&serving.url("resp"), &[&arguments[..], &["--json"]].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let [requests, answered] =
        [&run.json()["requests"], &run.json()["allowed"]].map(|number| number.as_u64().unwrap());
    assert!((50..=101).contains(&requests) && answered == requests, "{requests} {answered}");
    let few = report(
        &serving.url("resp"),
        &["--policy", "wide", "--rate", "1000", "--requests", "50", "--pipeline", "10"],
    );
    assert_eq!((&few["requests"], &few["rate"]), (&50.into(), &1_000.into()));
}

#[test]
fn the_report_adds_up() {
    let serving = serve();
    let said = report(&serving.url("http"), &["--policy", "wide", "--requests", "300"]);
    let bars = said["histogram"].as_array().unwrap();
    let drawn: u64 = bars.iter().map(|bar| bar["count"].as_u64().unwrap()).sum();
    assert_eq!(drawn, 300);
    let latency = ["min", "p50", "p90", "p99", "p99_9", "max"]
        .map(|name| said["latency_us"][name].as_f64().unwrap());
    assert!(latency.is_sorted() && latency[0] > 0.0, "{latency:?}");
    assert!(said["requests_per_second"].as_f64().unwrap() > 1.0);
    assert_eq!((&said["interrupted"], &said["unsent"]), (&false.into(), &0.into()));
    let run =
        bench(&serving.url("http"), &["--policy", "p", "--keys", "1", "--requests", "20"]).ok();
    let lines: Vec<Vec<&str>> =
        run.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    run.says(&["policy p, 1 key, 8 connections"]);
    assert!(
        lines.iter().any(|line| line.starts_with(&["allowed", "5", "25.0%"])),
        "{}",
        run.stdout
    );
    assert!(
        lines.iter().any(|line| line.starts_with(&["refused", "15", "75.0%"])),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("latency   p50 ") && run.stdout.contains('█'), "{}", run.stdout);
}

#[test]
fn a_descriptor_that_no_rule_knows() {
    let serving = serve();
    let arguments = ["--domain", "d", "--descriptor", "usr={key}", "--requests", "9"];
    let run = bench(&serving.url("grpc"), &arguments);
    assert_eq!(run.code, Some(0));
    assert!(run.stderr.starts_with("warning: no rule of the server limits"), "{}", run.stderr);
}
