//! Policies that count several units, by every command.

use waterclock_conformance::real::RedisServer;

use crate::support::Place;

const LLM: &str = r#"
[policies.llm]
limits = [
  { name = "requests", algorithm = "fixed-window", limit = 3, per = "1h", align = "epoch" },
  { name = "tokens", algorithm = "fixed-window", limit = 1000, per = "1h", align = "epoch", unit = "tokens" },
]
"#;

const TRACE: &str = concat!(
    r#"{"t_us":0,"key":"a","cost":{"requests":1,"tokens":800}}"#,
    "\n",
    r#"{"t_us":1,"key":"a","cost":{"tokens":300}}"#,
    "\n",
    r#"{"t_us":2,"key":"a"}"#,
    "\n",
    r#"{"t_us":3,"key":"a","op":"refund","cost":{"tokens":100}}"#,
    "\n",
    r#"{"t_us":4,"key":"a","cost":{"tokens":300}}"#,
    "\n",
    r#"{"t_us":5,"key":"a"}"#,
    "\n",
);

const DECIDED: &str = concat!(
    r#"{"t_us":0,"key":"a","cost":{"requests":1,"tokens":800},"allowed":true,"granted":{"requests":1,"tokens":800},"limit":3,"remaining":2,"retry_after_us":0,"next_unit_us":3600000000,"reset_after_us":3600000000,"refused_by":[],"next_same_us":3600000000}"#,
    "\n",
    r#"{"t_us":1,"key":"a","cost":{"requests":1,"tokens":300},"allowed":false,"granted":{"requests":0,"tokens":0},"limit":3,"remaining":2,"retry_after_us":3599999999,"next_unit_us":3599999999,"reset_after_us":3599999999,"refused_by":["tokens"],"next_same_us":3599999999}"#,
    "\n",
    r#"{"t_us":2,"key":"a","cost":{"requests":1,"tokens":0},"allowed":true,"granted":{"requests":1,"tokens":0},"limit":3,"remaining":1,"retry_after_us":0,"next_unit_us":3599999998,"reset_after_us":3599999998,"refused_by":[],"next_same_us":0}"#,
    "\n",
    r#"{"t_us":3,"key":"a","cost":{"requests":0,"tokens":100},"allowed":true,"granted":{"requests":0,"tokens":100},"limit":3,"remaining":1,"retry_after_us":0,"next_unit_us":3599999997,"reset_after_us":3599999997,"refused_by":[],"next_same_us":0,"op":"refund"}"#,
    "\n",
    r#"{"t_us":4,"key":"a","cost":{"requests":1,"tokens":300},"allowed":true,"granted":{"requests":1,"tokens":300},"limit":3,"remaining":0,"retry_after_us":0,"next_unit_us":3599999996,"reset_after_us":3599999996,"refused_by":[],"next_same_us":3599999996}"#,
    "\n",
    r#"{"t_us":5,"key":"a","cost":{"requests":1,"tokens":0},"allowed":false,"granted":{"requests":0,"tokens":0},"limit":3,"remaining":0,"retry_after_us":3599999995,"next_unit_us":3599999995,"reset_after_us":3599999995,"refused_by":["requests"],"next_same_us":3599999995}"#,
    "\n",
);

#[test]
fn a_trace_is_decided_unit_by_unit() {
    let bad = "{\"t_us\":0,\"cost\":5}\n";
    let place = Place::with_config(LLM).file("trace.jsonl", TRACE).file("bad.jsonl", bad);
    let here = place.run(&["replay", "trace.jsonl", "--format", "jsonl"]);
    assert_eq!(here.stdout, DECIDED, "{}", here.stderr);
    let redis = RedisServer::start();
    let there = place.run(&["replay", "trace.jsonl", "--format", "jsonl", "--store", &redis.url()]);
    assert_eq!(there.stdout, DECIDED, "{}", there.stderr);
    let report = place.run(&["replay", "trace.jsonl"]);
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    let run = place.run(&["replay", "bad.jsonl"]);
    assert_eq!(run.code, Some(2));
    assert_eq!(
        run.stderr.trim_end(),
        "bad.jsonl:1:1: policy `llm` counts `requests` and `tokens`; name them in the cost"
    );
}

#[test]
fn a_check_names_its_units() {
    let place = Place::with_config(LLM);
    assert_eq!(place.run(&["check", "llm", "a"]).code, Some(0));
    assert_eq!(place.run(&["check", "llm", "a", "--cost", "tokens=1000"]).code, Some(0));
    let run = place.run(&["check", "llm", "a", "--cost", "tokens=1001,requests=2", "--json"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stdout.contains(r#""cost":{"requests":2,"tokens":1001}"#), "{}", run.stdout);
    for (cost, expected) in [
        ("5", "--cost: policy `llm` counts `requests` and `tokens`; name them in the cost"),
        ("bytes=5", "--cost: policy `llm` counts `requests` and `tokens`, not `bytes`"),
        (
            "tokens=many",
            "--cost: a cost is a whole number, or units as in `requests=1,tokens=800`, not `tokens=many`",
        ),
    ] {
        let run = place.run(&["check", "llm", "a", "--cost", cost]);
        assert_eq!((run.code, run.stderr.trim_end()), (Some(2), expected), "{cost}");
    }
}

#[test]
fn a_log_has_an_expression_for_each_unit() {
    let line = |bytes: u32| {
        format!("1.2.3.4 - - [16/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 {bytes}\n")
    };
    let log = [line(2_000), line(1_600), line(800)].concat();
    let place = Place::with_config(LLM).file("access.log", &log);
    let read = ["replay", "access.log", "--input", "combined"];
    let run = |more: &[&str]| place.run(&[&read[..], more].concat());
    let told = run(&["--cost", "tokens=bytes / 4", "--format", "jsonl"]);
    let allowed: Vec<bool> =
        told.stdout.lines().map(|line| line.contains("\"allowed\":true")).collect();
    assert_eq!(allowed, [true, true, false], "{}{}", told.stdout, told.stderr);
    assert!(told.stdout.contains(r#""cost":{"requests":1,"tokens":500}"#), "{}", told.stdout);
    let both = run(&["--cost", "tokens=bytes / 4", "--cost", "requests=2", "--format", "jsonl"]);
    assert_eq!(both.stdout.matches("\"allowed\":true").count(), 1, "{}", both.stdout);
    for (costs, expected) in [
        (
            &["--cost", "bytes / 4"][..],
            "--cost: policy `llm` counts `requests` and `tokens`; name them in the cost, such as --cost tokens=…",
        ),
        (
            &["--cost", "words=1"],
            "--cost: policy `llm` counts `requests` and `tokens`, not `words`",
        ),
        (&["--cost", "tokens=1", "--cost", "tokens=2"], "--cost: the unit `tokens` is given twice"),
        (
            &["--cost", "tokens=1", "--cost", "bytes"],
            "--cost: `bytes` names no unit; write unit=bytes",
        ),
    ] {
        let run = run(costs);
        assert_eq!((run.code, run.stderr.trim_end()), (Some(2), expected), "{costs:?}");
    }
    let told = run(&["--cost", "tokens=bytes / 4", "--json"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
}

#[test]
fn it_is_explained_and_simulated() {
    let place = Place::with_config(LLM);
    for verb in
        [&["explain"][..], &["simulate", "--policy", "llm", "--rate", "10/s", "--for", "2s"]]
    {
        let run = place.run(verb);
        assert_eq!(run.code, Some(0), "{verb:?}: {}", run.stderr);
    }
    let with = place.run(&[
        "simulate",
        "--policy",
        "llm",
        "--cost",
        "tokens=300",
        "--rate",
        "10/s",
        "--for",
        "2s",
    ]);
    assert_eq!(with.code, Some(0), "{}", with.stderr);
    let one =
        place.run(&["simulate", "--policy", "llm", "--cost", "3", "--rate", "10/s", "--for", "2s"]);
    assert_eq!(one.code, Some(2));
    one.warns("name them in the cost");
}

/// Taking a unit away is rehearsed as adding one is.
#[test]
fn a_unit_comes_or_goes() {
    let less = "[policies.llm]\nlimits = [{ name = \"requests\", algorithm = \"fixed-window\", limit = 3, per = \"1h\", align = \"epoch\" }]\n";
    let trace = "{\"t_us\":0,\"cost\":{\"tokens\":800}}\n{\"t_us\":1,\"cost\":{\"tokens\":800}}\n";
    let place = Place::new().file("a.toml", LLM).file("b.toml", less).file("t.jsonl", trace);
    for (old, new, changes) in
        [("a.toml", "b.toml", "newly allowed            1"), ("b.toml", "a.toml", "refused")]
    {
        let run = place.run(&["diff", old, new, "--trace", "t.jsonl"]);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        run.says(&[changes]);
    }
    let words = "{\"t_us\":0,\"cost\":{\"words\":1}}\n";
    let run = place.file("w.jsonl", words).run(&["diff", "a.toml", "b.toml", "--trace", "w.jsonl"]);
    run.warns("not `words`");
}

/// Reset and peek need no cost.
#[test]
fn a_reset_has_no_cost() {
    let limit = |unit: &str| {
        format!(
            "{{ name = \"{unit}\", algorithm = \"fixed-window\", limit = 9, per = \"1h\", align = \"epoch\", unit = \"{unit}\" }}"
        )
    };
    let config = format!("[policies.p]\nlimits = [{}, {}]\n", limit("bytes"), limit("tokens"));
    let trace = concat!(
        "{\"t_us\":0,\"cost\":{\"bytes\":9}}\n",
        "{\"t_us\":1,\"op\":\"peek\"}\n",
        "{\"t_us\":2,\"op\":\"reset\"}\n",
        "{\"t_us\":3,\"op\":\"reset\",\"cost\":7}\n",
    );
    let decided = Place::with_config(&config).replay(trace);
    let remaining: Vec<_> = decided.iter().map(|line| line["remaining"].clone()).collect();
    assert_eq!(remaining, [0, 0, 9, 9]);
    let run = Place::with_config(&config).run_with_input(&["replay"], "{\"t_us\":0}\n");
    run.warns("name them in the cost");
    let run = Place::with_config(&config)
        .run_with_input(&["replay"], "{\"t_us\":0,\"cost\":{\"bytes\":-1}}\n");
    let complaint = "<stdin>:1:28: the numbers of a cost must be whole and from 0; found -1";
    assert_eq!(run.stderr.trim_end(), complaint);
}
