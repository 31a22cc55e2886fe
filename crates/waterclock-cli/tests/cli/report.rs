//! The report of a replay: refused keys, when and by which limit.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

#[cfg(target_os = "linux")]
use crate::support::measured;
use crate::support::{Place, titles};

/// Some keys ask now and then, one all the time, for a few minutes.
fn traffic(seed: u64, events: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut t_us, mut trace) = (1_700_000_000_000_000_u64, String::new());
    for _ in 0..events {
        t_us += random.u64(..300_000);
        let key = if random.bool() { 0 } else { random.u32(1..20) };
        let cost = random.u64(1..4);
        writeln!(trace, "{{\"t_us\":{t_us},\"key\":\"user-{key}\",\"cost\":{cost}}}").unwrap();
    }
    trace
}

fn report(place: &Place, trace: &str) -> Value {
    let run = place.run_with_input(&["replay", "-p", "p", "--json"], trace).ok();
    run.json()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Every number of the report, counted again from the decisions themselves.
#[test]
fn the_report_says_what_the_decisions_say() {
    let place = Place::with_limits(
        "\"5/s\", { name = \"minute\", algorithm = \"fixed-window\", limit = 60, per = \"1m\" }, \
         { name = \"watch\", algorithm = \"fixed-window\", limit = 20, per = \"1m\", shadow = true }",
    );
    let trace = traffic(3, 2_000);
    let (report, lines) = (report(&place, &trace), place.replay(&trace));
    let refused: Vec<&Value> = lines.iter().filter(|line| line["allowed"] == false).collect();
    assert!(refused.len() > 50, "{}", refused.len());
    for (name, count) in
        [("checks", 2_000), ("refused", refused.len()), ("allowed", 2_000 - refused.len())]
    {
        assert_eq!(report[name], json!(count), "{name}");
    }
    let by = |name: &str, field: &str| {
        lines
            .iter()
            .filter(|line| line[field].as_array().is_some_and(|by| by.contains(&json!(name))))
            .count()
    };
    for name in ["gcra", "minute"] {
        assert_eq!(report["refused_by"][name], json!(by(name, "refused_by")), "{name}");
    }
    assert_eq!(report["shadow_refused_by"]["watch"], json!(by("watch", "shadow_refused_by")));
    let mut keys: BTreeMap<&str, (u64, u64, u64, u64, u64, u64)> = BTreeMap::new();
    for line in &lines {
        let key = keys.entry(line["key"].as_str().unwrap()).or_default();
        key.0 += 1;
        if line["allowed"] == false {
            let t_us = number(&line["t_us"]);
            key.2 = if key.1 == 0 { t_us } else { key.2 };
            (key.1, key.3) = (key.1 + 1, t_us);
            key.4 = key.4.max(number(&line["retry_after_us"]));
        }
        key.5 += u64::from(!line["shadow_refused_by"].is_null());
    }
    assert_eq!(report["keys"], json!(keys.len()));
    assert_eq!(report["keys_refused"], json!(keys.values().filter(|key| key.1 > 0).count()));
    let mut most: Vec<_> = keys.iter().filter(|(_, key)| key.1 > 0).collect();
    most.sort_by(|one, other| other.1.1.cmp(&one.1.1).then(one.0.cmp(other.0)));
    let expected: Vec<Value> = most
        .iter()
        .take(10)
        .map(|(key, (checks, refused, first, last, wait, shadow))| {
            json!({ "key": key, "checks": checks, "refused": refused, "first_refused_us": first,
                    "last_refused_us": last, "longest_retry_after_us": wait, "shadow_refused": shadow })
        })
        .collect();
    assert_eq!(report["most_refused_keys"], json!(expected));
    assert_eq!(report["busiest_keys"][0]["key"], "user-0");
    let bins = report["timeline"]["bins"].as_array().unwrap();
    let width = number(&report["timeline"]["bin_us"]);
    for bin in bins {
        let start = number(&bin["t_us"]);
        let within = |line: &&&Value| (start..start + width).contains(&number(&line["t_us"]));
        let all: Vec<&Value> = lines.iter().collect();
        assert_eq!(bin["offered"], json!(all.iter().filter(within).count()));
        let refused = refused.iter().filter(within).count();
        assert_eq!(number(&bin["offered"]) - number(&bin["allowed"]), refused as u64);
    }
}

#[test]
fn pictures_and_pages_show_hostile_keys_as_text() {
    let hostile = [
        "<script>alert(1)</script>",
        "\\u0000\\u001b[2J",
        "\\\"><img src=x>",
        "\\u202egnp.exe",
        "👩🚒",
    ];
    let trace: String = (0..50)
        .map(|number| {
            format!(
                "{{\"t_us\":{},\"key\":\"{}\"}}\n",
                1_700_000_000_000_000_u64 + number * 1_000,
                hostile[usize::try_from(number).unwrap() % 5]
            )
        })
        .collect();
    let place = Place::with_limits("\"1/m\"").file("t", &trace);
    let run = place.run(&["replay", "t", "--plot", "p.svg", "--html", "p.html"]).ok();
    assert!(!run.stdout.contains('\u{1b}') && !run.stdout.contains('\0'), "{}", run.stdout);
    let svg = place.read("p.svg");
    let titles = titles(&svg);
    assert!(
        titles
            .iter()
            .any(|title| title.contains("<script>alert(1)</script> refused by gcra, retry in")),
        "{titles:?}"
    );
    assert!(titles.iter().any(|title| title.starts_with("2023-11-14 22:13:20Z")), "{titles:?}");
    let page = place.read("p.html");
    for raw in ["<script>", "<img", "\u{1b}", "\0", "\u{202e}"] {
        assert!(!page.contains(raw) && !svg.contains(raw), "{raw:?}");
    }
    for part in ["&lt;script&gt;alert(1)&lt;/script&gt;", "<h2>Clients</h2>", "👩🚒"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn one_key_for_each_flag() {
    let place = Place::with_limits("\"1/s\"").file("t", "{\"t_us\":0}\n");
    let cases: [(&[&str], &str); 3] = [
        (&["--json", "--format", "jsonl"], "cannot be used with"),
        (&["--format", "jsonl", "--plot", "p.svg"], "leave out --format jsonl"),
        (&["--plot", "no/such/p.svg"], "no/such/p.svg: cannot be written"),
    ];
    for (arguments, complaint) in cases {
        let run = place.run(&[&["replay", "t"], arguments].concat());
        assert_eq!(run.code, Some(2), "{arguments:?}");
        run.warns(complaint);
    }
}

/// A policy in shadow refuses nothing, and is rehearsed all the same.
#[test]
fn what_shadow_would_refuse_is_told() {
    let config = "[policies.p]\nshadow = true\nlimits = [\"2/s\"]\n";
    let trace: String =
        (0..20).map(|n| format!("{{\"t_us\":{n},\"key\":\"k{}\"}}\n", n % 2)).collect();
    let place = Place::with_config(config).file("t", &trace);
    let run = place.run(&["replay", "t"]);
    run.says(&[
        "shadow-refused           16   80.0 %",
        "most shadow-refused keys",
        "no client exceeds 10/s",
        "\"k1\"",
    ]);
    let report = place.run(&["replay", "t", "--json"]).json();
    assert_eq!((number(&report["refused"]), number(&report["shadow_refused"])), (0, 16));
    assert_eq!(number(&report["most_shadow_refused_keys"][0]["shadow_refused"]), 8);
}

/// What a limit in shadow would refuse does not depend on what the others refuse.
#[test]
fn shadow_is_counted_beside_refusals() {
    let limits =
        "\"5/h\", { name = \"new\", algorithm = \"gcra\", limit = 2, per = \"1h\", shadow = true }";
    let trace: String = (0..8).map(|n| format!("{{\"t_us\":{n}}}\n")).collect();
    let place = Place::with_limits(limits).file("t", &trace);
    let run = place.run(&["replay", "t", "--html", "r.html"]);
    run.says(&["refused                   3   37.5 %", "shadow-refused            6   75.0 %"]);
    let page = place.read("r.html");
    assert!(page.contains("<dt>Shadow-refused</dt><dd class=\"odd\">6<small>75.0 % of checks"));
    let report = place.run(&["replay", "t", "--json"]).json();
    assert_eq!((number(&report["refused"]), number(&report["shadow_refused"])), (3, 6));
    assert_eq!(number(&report["shadow_refused_by"]["new"]), 6);
    assert_eq!(number(&report["most_shadow_refused_keys"][0]["shadow_refused"]), 6);
    let lines = place.run(&["replay", "t", "--format", "jsonl"]).lines();
    let in_shadow = lines.iter().filter(|line| !line["shadow_refused_by"].is_null()).count();
    assert_eq!(in_shadow, 6);
}

/// A cost that never passes is no short wait; costs of billions are costs.
#[test]
fn never_is_not_zero_and_large_costs_count() {
    let place = Place::with_limits("\"1000000000/s\"");
    let trace = "{\"t_us\":0,\"cost\":5000000000}\n{\"t_us\":1,\"cost\":10}\n";
    let report = report(&place, trace);
    assert_eq!(report["most_refused_keys"][0]["longest_retry_after_us"], Value::Null);
    assert!(number(&report["advice"][0]["percentiles"][2]["limit"]) >= 5_000_000_000);
    let run = place.file("t", trace).run(&["replay", "t", "--plot", "p.svg"]);
    run.says(&["never"]);
}

/// What is harmless on a terminal and what is JSON are two things.
#[test]
fn json_is_written_as_it_is() {
    let place = Place::with_limits("\"1/m\"")
        .file("t", "{\"t_us\":0,\"key\":\"a\\u007fb\"}\n".repeat(2).as_str());
    let report = place.run(&["replay", "t", "--json"]).json();
    assert_eq!(report["most_refused_keys"][0]["key"], "a\u{7f}b");
}

/// A million lines of half a million keys stay within what is promised.
#[cfg(target_os = "linux")]
#[test]
fn a_million_lines_take_little_memory() {
    const LINES: u64 = 1_000_000;
    const MOST_KIB: u64 = 300 * 1_024;
    let place = Place::with_limits("\"2/s\"");
    let log: String = (0..LINES).fold(String::new(), |mut log, number| {
        let (minute, second) = (number / 60_000 % 60, number / 1_000 % 60);
        let (key, third) = (number * 7_919 % 500_000, number % 3);
        let address = if third == 0 { "10.9.9.9".to_owned() } else { format!("10.{}.{}.{}", key >> 16, key >> 8 & 255, key & 255) };
        writeln!(log, "{address} - - [10/Oct/2023:13:{minute:02}:{second:02} +0000] \"GET /a HTTP/1.1\" 200 512 \"-\" \"curl/8\"").unwrap();
        log
    });
    let place = place.file("access.log", &log);
    drop(log);
    let arguments = ["replay", "access.log", "--input", "combined", "--json"];
    let (output, most) = measured(&mut place.command(&arguments));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((number(&report["checks"]), &report["keys_are_estimates"]), (LINES, &json!(true)));
    assert_eq!(report["most_refused_keys"][0]["key"], "10.9.9.9");
    assert!((10_000..MOST_KIB).contains(&most), "{most} KiB");
}
