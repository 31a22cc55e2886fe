//! Factors, tiers and rollouts: what files mean, and what single commands make of them.

use serde_json::{Value, json};

use crate::support::Place;

fn file(settings: &str) -> Place {
    Place::with_config(&format!(
        "[policies.p]\n{settings}\nlimits = [{{ algorithm = \"fixed-window\", limit = 10, per = \"1h\" }}]\n"
    ))
}

const TIERS: &str = "tiers = { pro = { factor = 0.5 }, new = { factor = 4 }, same = { factor = 1 }, staff = { factor = 0.0 } }";

#[test]
fn a_factor_is_in_the_numbers() {
    let limits = |settings: &str| {
        let run = file(settings).run(&["validate", "--json"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.json()["policies"]["p"].clone()
    };
    assert_eq!(limits("factor = 0.5")["limits"][0]["limit"], 20);
    assert_eq!(limits("factor = 3")["limits"][0]["limit"], 4);
    assert_eq!(limits("factor = 1.0")["limits"][0]["limit"], 10);
    assert_eq!(limits("factor = 0")["limits"], json!([]));
    // A tier multiplies what the policy is, and rounds once: 10 / (3 · 0.5).
    let both = limits("factor = 3\ntiers = { pro = { factor = 0.5 } }");
    assert_eq!(both["tiers"]["pro"]["limits"][0]["limit"], 7);
    assert_eq!(limits("rollout = \"12.5%\"")["rollout"], "12.5%");
    assert_eq!(limits("rollout = \"100.00%\"").get("rollout"), None);
}

#[test]
fn validate_says_it_in_english() {
    let run = file(&format!("factor = 2\nrollout = \"25%\"\n{TIERS}")).run(&["validate"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for said in [
        "Its limits are those of the file, scaled by factor 2.",
        "Rolled out to 25% of keys; for the others it runs in shadow: it reports and never refuses.",
        "  tier pro: the same budget, scaled by factor 0.5.\n    fixed-window: ",
        "  tier same: the same limits.\n",
        "  tier staff: no limits; everything is admitted and nothing charged.",
    ] {
        assert!(run.stdout.contains(said), "{said}: {}", run.stdout);
    }
    let run = file("factor = 0").run(&["validate"]);
    run.says(&["its factor of 0 disables its limits"]);
}

#[test]
fn what_makes_no_sense_has_a_place() {
    for (settings, complaint) in [
        ("factor = -1", ":2:10: `factor` must not be negative; found -1"),
        ("factor = nan", ":2:10: `factor` must be a finite number of at most 18 digits; found nan"),
        ("factor = \"2\"", ":2:10: `factor` must be a number; found \"2\""),
        (
            "factor = 0.0000000000000001",
            ":2:10: limit `fixed-window` cannot be scaled by 0.0000000000000001: `limit` must be at most 2^53 - 1",
        ),
        ("tiers = { pro = { factor = -0.5 } }", ":2:28: `factor` must not be negative; found -0.5"),
        ("tiers = { pro = {} }", ":2:17: tier `pro` needs `factor`, such as 0.5"),
        ("tiers = { pro = 2 }", ":2:17: `tiers` must be a table; found 2"),
        (
            "tiers = { \"pr\\\"o\" = { factor = 1 } }",
            ":2:11: the name of a tier must be 1 to 64 printable ASCII characters without quotes or backslashes; found \"pr\\\"o\"",
        ),
        (
            "factor = 0.00000000001\ntiers = { pro = { factor = 0.00000000001 } }",
            ":3:28: a factor must have at most 18 digits, before and after the point together",
        ),
    ] {
        let run = file(settings).run(&["validate"]);
        assert_eq!(run.code, Some(2), "{settings}");
        assert!(run.stderr.trim_end().ends_with(complaint), "{settings}: {}", run.stderr);
    }
}

/// In Redis a record names the policy it was written by in three digits.
#[test]
fn in_redis_tiers_are_few() {
    let with = |tiers: u32, rest: &str| {
        let tiers: Vec<String> =
            (0..tiers).map(|n| format!("t{n} = {{ factor = 0.{}1 }}", n + 1)).collect();
        let text = format!(
            "[store]\nurl = \"redis://127.0.0.1:1\"\n[policies.p]\nlimits = [\"1/s\"]\n{rest}\ntiers = {{ {} }}",
            tiers.join(", ")
        );
        Place::with_config(&text).run(&["validate"])
    };
    for (tiers, rest) in [(449, ""), (447, "overrides = { a = [\"2/s\"], b = [\"2/s\"] }")] {
        assert_eq!(with(tiers, rest).code, Some(0), "{}", with(tiers, rest).stderr);
        let run = with(tiers + 1, rest);
        assert_eq!(run.code, Some(2));
        let place =
            ":6:9: `tiers` and `overrides` are too many: in Redis at most 450 policies share";
        run.warns(place);
    }
}

#[test]
fn check_takes_a_tier() {
    let place = file(TIERS);
    let check = |arguments: &[&str]| {
        let all: Vec<&str> =
            ["check", "p", "k", "--json"].iter().chain(arguments).copied().collect();
        let run = place.run(&all);
        let said = run.json();
        assert_eq!(said["policy"], "p");
        (run.code, said["limit"].clone(), said["allowed"].clone(), run.stderr)
    };
    let quiet = String::new;
    assert_eq!(check(&["--cost", "15"]), (Some(1), json!(10), json!(false), quiet()));
    assert_eq!(
        check(&["--cost", "15", "--tier", "pro"]),
        (Some(0), json!(20), json!(true), quiet())
    );
    assert_eq!(check(&["--tier", "new"]), (Some(0), json!(3), json!(true), quiet()));
    assert_eq!(check(&["--tier", "same"]), (Some(0), json!(10), json!(true), quiet()));
    let staff = (Some(0), Value::Null, json!(true), quiet());
    assert_eq!(check(&["--cost", "9999", "--tier", "staff"]), staff);
    let unknown = place.run(&["check", "p", "k", "--tier", "prow"]);
    unknown
        .fails("--tier: policy `p` has no tier \"prow\"; it has `new`, `pro`, `same` and `staff`");
    let place = file(&format!("{TIERS}\ndefault_tier = \"new\""));
    assert_eq!(place.run(&["check", "p", "k", "--json", "--tier", "prow"]).json()["limit"], 3);
    assert_eq!(place.run(&["check", "p", "k", "--json"]).json()["limit"], 10);
    let plain = file("").run(&["check", "p", "k", "--tier", "pro"]);
    plain.fails("--tier: policy `p` has no tiers; found \"pro\"");
}

/// `alice` drew 6 986 of 10 000 for `login`, and `bob` 3 740.
#[test]
fn check_knows_which_keys_are_enrolled() {
    let place = Place::with_config("[policies.login]\nrollout = \"50%\"\nlimits = [\"1/h\"]\n");
    let refused = place.run(&["check", "login", "bob", "--cost", "2"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    let free = place.run(&["check", "login", "alice", "--cost", "2"]);
    assert_eq!(free.code, Some(0), "{}", free.stdout);
    free.says(&["in shadow, gcra would have refused"]);
    let json = place.run(&["check", "login", "alice", "--cost", "2", "--json"]).json();
    assert_eq!((&json["allowed"], &json["granted"]), (&json!(true), &json!(2)));
    assert_eq!(json["shadow_refused_by"], json!(["gcra"]));
}

const TRACE: &str = r#"{"t_us":0,"key":"a","cost":8}
{"t_us":1,"key":"a","cost":3}
{"t_us":2,"key":"a","cost":3,"tier":"pro"}
{"t_us":3,"key":"a","cost":1}
{"t_us":4,"key":"a","cost":100,"tier":"staff"}
{"t_us":5,"key":"a","cost":9,"tier":"pro","op":"peek"}
{"t_us":6,"key":"a","cost":5,"tier":"pro","op":"refund"}
{"t_us":7,"key":"a","cost":4}
"#;

#[test]
fn replay_takes_tiers_of_events() {
    let run = file(TIERS).run_with_input(&["replay", "--format", "jsonl"], TRACE);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let said: Vec<(Value, Value)> = run
        .lines()
        .iter()
        .map(|line| (line["allowed"].clone(), line["remaining"].clone()))
        .collect();
    let expected = [
        (json!(true), json!(2)),
        (json!(false), json!(2)),
        (json!(true), json!(9)),
        (json!(false), json!(0)),
        (json!(true), Value::Null),
        (json!(true), json!(9)),
        // Five of eleven are given back, and the answer has the tier's numbers.
        (json!(true), json!(14)),
        (json!(true), json!(0)),
    ];
    assert_eq!(said, expected);
}

#[test]
fn replay_of_an_unknown_tier() {
    let trace = "{\"t_us\":0,\"tier\":\"pro\"}\n{\"t_us\":1,\"tier\":\"gold\"}\n";
    let replay = |rest: &str, arguments: &[&str], input: &str| {
        let all: Vec<&str> =
            ["replay", "--format", "jsonl"].iter().chain(arguments).copied().collect();
        file(rest).run_with_input(&all, input)
    };
    let run = replay(TIERS, &[], trace);
    assert_eq!((run.code, run.lines().len()), (Some(2), 1), "{}", run.stderr);
    run.warns(":2:1: policy `p` has no tier \"gold\"; it has `new`, `pro`, `same` and `staff`");
    let with_default = format!("{TIERS}\ndefault_tier = \"new\"");
    let run = replay(&with_default, &[], trace).ok();
    assert_eq!(run.lines()[1]["limit"], 3);
    replay("", &[], trace).fails(":1:1: policy `p` has no tiers; found \"pro\"");
    // A line of a log is skipped, as others that cannot be decided.
    let log = "{\"ts\":1,\"plan\":\"pro\"}\n{\"ts\":2,\"plan\":\"gold\"}\n{\"ts\":3}\n";
    let logs = ["--input", "jsonl", "--tier", "plan", "--key", "\"k\""];
    let run = replay(TIERS, &logs, log);
    assert_eq!((run.code, run.lines().len()), (Some(0), 2), "{}", run.stderr);
    run.warns("policy `p` has no tier \"gold\"");
    assert_eq!(replay(&with_default, &logs, log).ok().lines()[1]["limit"], 3);
}

/// What is compared may have other tiers: one of the two must know it.
#[test]
fn diff_of_policies_with_other_tiers() {
    let diff = |tier: &str| {
        let trace = format!("{{\"t_us\":0,\"tier\":\"{tier}\"}}\n");
        let old = "[policies.p]\nlimits = [\"10/s\"]\n";
        let place = file(TIERS).file("old.toml", old).file("trace", &trace);
        place.run(&["diff", "old.toml", "waterclock.toml", "--trace", "trace"])
    };
    assert_eq!((diff("pro").code, &*diff("pro").stderr), (Some(1), ""), "there are differences");
    diff("gold").warns("policy `p` has no tier \"gold\"");
}

#[test]
fn events_and_checks_have_factors() {
    let trace = r#"{"t_us":0,"key":"a","cost":12,"factor":0.5}
{"t_us":1,"key":"a","cost":9,"factor":"0.25","tier":"pro"}
{"t_us":2,"key":"a"}
{"t_us":3,"key":"a","cost":1000,"factor":0}
{"t_us":4,"key":"b","cost":4,"factor":3}
"#;
    let run = file(TIERS).run_with_input(&["replay", "--format", "jsonl"], trace);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let said: Vec<Value> = run
        .lines()
        .iter()
        .map(|line| json!([line["allowed"], line["limit"], line["remaining"]]))
        .collect();
    let expected =
        json!([[true, 20, 8], [true, 80, 59], [false, 10, 0], [true, null, null], [true, 4, 0]]);
    assert_eq!(Value::from(said), expected);
    let bad = "{\"t_us\":0,\"factor\":-1}\n";
    let run = file(TIERS).run_with_input(&["replay", "--format", "jsonl"], bad);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("a factor must not be negative"), "{}", run.stderr);
    let run = file(TIERS).run(&["check", "p", "k", "--cost", "15", "--factor", "0.5"]).ok();
    assert!(run.stdout.starts_with("allowed; 5 left"), "{}", run.stdout);
    let run = file(TIERS).run(&["check", "p", "k", "--factor", "-1"]);
    assert_eq!((run.code, run.stderr.contains("--factor: ")), (Some(2), true), "{}", run.stderr);
}

#[test]
fn replay_keeps_others_in_shadow() {
    let place = Place::with_config("[policies.login]\nrollout = \"50%\"\nlimits = [\"1/h\"]\n");
    let trace: String = ["alice", "bob", "alice", "bob", "alice", "bob"]
        .iter()
        .map(|key| format!("{{\"t_us\":0,\"key\":\"{key}\"}}\n"))
        .collect();
    let run = place.run_with_input(&["replay"], &trace);
    for line in [
        "allowed                   4",
        "refused                   2",
        "shadow-refused by limit\n             2  gcra",
    ] {
        assert!(run.stdout.contains(line), "{line}: {}", run.stdout);
    }
}
