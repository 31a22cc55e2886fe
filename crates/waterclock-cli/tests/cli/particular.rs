//! Exceptions for single keys apply to rehearsals as they do to the server.

use std::fmt::Write;

use serde_json::Value;
use waterclock_conformance::real::RedisServer;

use crate::serve::process::Serving;
use crate::support::Place;

const CONFIG: &str = r#"
[policies.p]
rollout = "50%"
limits = [{ algorithm = "gcra", limit = 3, per = "1h" }]
exempt = ["vip", "10.0.0.0/8"]
block = ["eve", "203.0.113.0/24", "10.6.6.6"]
overrides = { alice = ["1/h"], bob = [{ name = "own", algorithm = "fixed-window", limit = 5, per = "1h" }] }
tiers = { pro = { factor = 0.5 } }
"#;
const KEYS: [&str; 9] =
    ["vip", "10.1.2.3", "eve", "203.0.113.9", "10.6.6.6", "alice", "bob", "k1", "k2"];

fn trace() -> String {
    let mut trace = String::new();
    for round in 0..8 {
        for key in KEYS {
            writeln!(trace, "{{\"t_us\":{},\"key\":\"{key}\"}}", 1_700_000_000_000_000_u64 + round)
                .unwrap();
        }
    }
    trace
}

fn words(line: &Value) -> Value {
    let fields =
        ["key", "allowed", "granted", "limit", "remaining", "refused_by", "shadow_refused_by"];
    fields.iter().map(|field| line[*field].clone()).collect()
}

/// Asked in the same order, a real server says the same.
#[test]
fn a_replay_says_what_a_server_says() {
    let replayed = Place::with_config(CONFIG).replay(&trace());
    let serving = Serving::start(Place::with_config(CONFIG));
    let mut client = serving.client();
    for line in &replayed {
        let served = client.check("p", line["key"].as_str().unwrap()).json();
        assert_eq!(words(line), words(&served), "{line}\n{served}");
    }
    let allowed = |key: &str| {
        let of_key = replayed.iter().filter(|line| line["key"] == key);
        of_key.filter(|line| line["allowed"] == true).count()
    };
    assert_eq!(KEYS.map(allowed)[..7], [8, 8, 0, 0, 0, 1, 5]);
}

#[test]
fn the_scripts_in_redis_say_it_too() {
    let (place, server) = (Place::with_config(CONFIG), RedisServer::start());
    let arguments = ["replay", "--format", "jsonl"];
    let here = place.run_with_input(&arguments, &trace());
    let there = place
        .run_with_input(&[&arguments[..], &["--store", &server.url()]].concat(), &trace())
        .ok();
    assert_eq!(there.stdout, here.stdout);
}

#[test]
fn a_report_names_the_list() {
    let place = Place::with_config(CONFIG).file("t", &trace());
    let run = place.run(&["replay", "t", "--json", "--plot", "p.svg"]);
    let report = run.json();
    assert_eq!(report["most_refused_keys"][0]["refused"], 8);
    let number = |name: &str| report[name].as_u64().unwrap();
    assert_eq!((number("blocked"), number("refused_by_limits_of_keys")), (24, 10));
    let by_limit: u64 = report["refused_by"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum();
    assert_eq!(number("refused"), 24 + 10 + by_limit, "every refusal is accounted for");
    let svg = place.read("p.svg");
    assert!(svg.contains("eve refused by the block list, retry never"), "{svg}");
    // Keys with rules of their own are not what the limit's numbers are for.
    assert_eq!(report["advice"][0]["percentiles"][2]["limit"], 8);
}

#[test]
fn a_blocked_key_has_nothing_left() {
    let place = Place::with_config(CONFIG);
    for cost in ["0", "1", "1000"] {
        let said = place.run(&["check", "p", "eve", "--json", "--cost", cost]).json();
        assert_eq!((&said["allowed"], &said["remaining"]), (&false.into(), &0.into()), "{said}");
        assert!(said["retry_after_us"].is_null() && said["next_unit_us"].is_null(), "{said}");
        assert_eq!(said["refused_by"].as_array().map(Vec::len), Some(0), "{said}");
    }
}

#[test]
fn one_check_each() {
    let place = Place::with_config(CONFIG);
    let cases = [
        ("eve", 1, "refused: the key is blocked"),
        ("vip", 0, "allowed"),
        ("10.1.2.3", 0, "allowed"),
        ("alice", 0, "allowed; 0 left"),
        ("bob", 0, "allowed; 4 left"),
    ];
    for (key, code, sentence) in cases {
        let run = place.run(&["check", "p", key]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(code), ""), "{key}");
        assert!(run.stdout.starts_with(sentence), "{key}: {}", run.stdout);
    }
}

/// Whether a file decides or a server that was started with it: words, JSON and code are the same.
#[test]
fn a_file_says_what_a_server_says() {
    let config = CONFIG.replace("tiers = { ", "tiers = { free = { factor = 0 }, ")
        + "[policies.none]\nfactor = 0\nlimits = [\"1/s\"]\n";
    let serving = Serving::start(Place::with_config(&config));
    let (place, url) = (Place::with_config(&config), serving.url("http"));
    let asked: [&[&str]; 7] = [
        &["p", "eve"],
        &["p", "vip"],
        &["p", "vip", "--cost", "900"],
        &["p", "10.1.2.3"],
        &["p", "alice", "--cost", "0"],
        &["p", "carol", "--tier", "free"],
        &["none", "k"],
    ];
    for arguments in asked {
        for flags in [&[][..], &["--json"]] {
            let here = place.run(&[&["check"], arguments, flags].concat());
            let there = place.run(&[&["check", "--server", &*url], arguments, flags].concat());
            assert_eq!(
                (here.code, here.stdout, here.stderr),
                (there.code, there.stdout, there.stderr),
                "{arguments:?}"
            );
        }
    }
    let exempt = place.run(&["check", "p", "vip"]).stdout;
    assert!(exempt.starts_with("allowed by the policy alone, not by the store"), "{exempt}");
}

#[test]
fn simulate_and_diff_know_them_too() {
    let place = Place::with_config(CONFIG)
        .file("t", &trace())
        .file("new.toml", &CONFIG.replace("\"eve\", ", "").replace("alice = [\"1/h\"], ", ""));
    let simulated =
        place.run(&["simulate", "-c", "waterclock.toml", "--arrivals", "t", "--json"]).json();
    let refusals = simulated["subjects"][0]["refusals"].as_array().unwrap();
    assert_eq!(refusals.iter().filter(|refusal| refusal["key"] == "eve").count(), 8);
    assert!(refusals.iter().all(|refusal| refusal["key"] != "vip"));
    let run = place.run(&["diff", "waterclock.toml", "new.toml", "--trace", "t", "--json"]);
    let (words, changes) = (&run.json()["policies"][0]["removed"], &run.json()["trace"]);
    assert!(words.to_string().contains("blocked: \\\"eve\\\""), "{words}");
    let eve =
        changes["most_changed_keys"].as_array().unwrap().iter().find(|key| key["key"] == "eve");
    assert!(eve.is_some_and(|eve| eve["newly_allowed"].as_u64() >= Some(3)), "{changes}");
}

#[test]
fn validate_tells_them() {
    let run = Place::with_config(CONFIG).run(&["validate"]);
    run.says(&[
        "exempt: \"vip\".",
        "blocked: \"eve\".",
        "override for \"alice\": 1 request per 1 h",
    ]);
}

/// Leases are between servers; a rehearsal has none.
#[test]
fn a_lease_is_told_to_be_left_out() {
    let place = Place::with_config(
        "[policies.p]\nlimits = [\"1/s\"]\nlease = { size = 20, ttl = \"1s\" }\n",
    );
    let run = place.run_with_input(&["replay"], "{\"t_us\":0}\n");
    let warning =
        "warning: policy `p` leases units to servers; here each unit is counted at once\n";
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), warning));
}

/// A refund or reset answers with the limits that apply to the key, like a peek right after it.
#[test]
fn refunds_and_resets_answer_as_a_peek() {
    let config = r#"
[policies.p]
limits = ["5/h"]
overrides = { "own" = ["100/h"] }
block = ["blocked"]
exempt = ["free"]
tiers = { pro = { factor = 0.1 } }
"#;
    let about = |op: &str, key: &str, t_us: u32| {
        let tier = if key == "pro" { ",\"tier\":\"pro\"" } else { "" };
        format!("{{\"t_us\":{t_us},\"key\":\"{key}\",\"op\":\"{op}\"{tier}}}\n")
    };
    let keys = ["own", "blocked", "free", "pro", "other"];
    let mut trace = String::new();
    for (at, key) in (0..).zip(keys) {
        for op in ["check", "check", "check", "refund", "peek", "reset", "peek"] {
            trace.push_str(&about(op, key, at));
        }
    }
    let redis = RedisServer::start();
    let place = Place::with_config(config).file("t.jsonl", &trace);
    let told = place.replay(&trace);
    for (key, lines) in keys.iter().zip(told.chunks(7)) {
        for (done, peeked) in [(&lines[3], &lines[4]), (&lines[5], &lines[6])] {
            let mut done = done.clone();
            done.as_object_mut().unwrap().remove("op");
            assert_eq!(&done, peeked, "{key}");
        }
    }
    assert_eq!(told[4]["remaining"], 98);
    let run = |more: &[&str]| {
        place.run(&[&["replay", "t.jsonl", "--format", "jsonl"][..], more].concat()).stdout
    };
    assert_eq!(run(&["--store", &redis.url()]), run(&[]));
}
