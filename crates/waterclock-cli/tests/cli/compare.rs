//! `waterclock compare`: another limiter's decisions beside a policy in shadow.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use std::io::{BufRead, BufReader, Read, Write};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::Place;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Decisions of one policy as a feed, with times and keys as another limiter would log them.
fn feed(place: &Place, trace: &str, limit: &str) -> Vec<Value> {
    let run = place.run_with_input(&["replay", "--limit", limit, "--format", "jsonl"], trace).ok();
    let decision = |line: Value| json!({ "ts_us": line["t_us"], "key": line["key"], "allowed": line["allowed"] });
    run.lines().into_iter().map(decision).collect()
}

fn trace() -> String {
    let mut random = fastrand::Rng::with_seed(11);
    let mut t_us = 1_700_000_000_000_000_u64;
    (0..2_000)
        .map(|_| {
            t_us += random.u64(..100_000);
            let key = if random.bool() { 0 } else { random.u32(1..9) };
            format!("{{\"t_us\":{t_us},\"key\":\"k{key}\"}}\n")
        })
        .collect()
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

const FLAGS: [&str; 4] = ["--input", "jsonl", "--time", "ts_us"];

#[test]
fn the_same_limits_agree_about_everything() {
    let place = Place::new();
    let old = text(&feed(&place, &trace(), "3/s"));
    let arguments = [&["compare", "--limit", "3/s", "--json"], &FLAGS[..]].concat();
    let compared = place.run_with_input(&arguments, &old).ok().json();
    assert_eq!((number(&compared["checks"]), number(&compared["agree"])), (2_000, 2_000));
    assert!(number(&compared["both_refuse"]) > 50, "{compared}");
    assert_eq!(
        (&compared["differences"], &compared["most_different_clients"]),
        (&json!([]), &json!([]))
    );
    let arguments = [&["compare", "--limit", "3/s"], &FLAGS[..]].concat();
    let run = place.run_with_input(&arguments, &old).ok();
    run.says(&[
        "they agree about 100 % of 2,000 checks",
        "old: refused where allowed is false; new: policy limit",
    ]);
    assert!(!run.stdout.contains("why they differ"));
}

/// Every count, from the decisions themselves.
#[test]
fn counts_are_those_of_the_decisions() {
    let place = Place::new();
    let (old, new) = (feed(&place, &trace(), "20/10s quota"), feed(&place, &trace(), "3/s"));
    let arguments = [&["compare", "--limit", "3/s", "--json"], &FLAGS[..]].concat();
    let compared = place.run_with_input(&arguments, &text(&old)).ok().json();
    let mut counts = [0_u64; 4];
    let mut clients: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    for (old, new) in old.iter().zip(&new) {
        let place = match (old["allowed"].as_bool(), new["allowed"].as_bool()) {
            (Some(true), Some(true)) => 0,
            (Some(false), Some(false)) => 1,
            (Some(false), _) => 2,
            _ => 3,
        };
        counts[place] += 1;
        clients.entry(old["key"].as_str().unwrap()).or_default()[place] += 1;
    }
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
    let names = ["both_allow", "both_refuse", "only_old_refuses", "only_new_refuses"];
    assert_eq!(names.map(|name| number(&compared[name])), counts);
    for client in compared["most_different_clients"].as_array().unwrap() {
        let own = names.map(|name| number(&client[name]));
        assert_eq!(own, clients[client["key"].as_str().unwrap()], "{client}");
    }
    let differences = compared["differences"].as_array().unwrap();
    let sum = |side: &str| -> u64 {
        let of_side =
            differences.iter().filter(|one| one["class"].as_str().unwrap().starts_with(side));
        of_side.map(|one| number(&one["checks"])).sum()
    };
    assert_eq!((sum("only-old"), sum("only-new")), (counts[2], counts[3]));
    assert_eq!(number(&compared["only_new_refuses_by"]["gcra"]), counts[3]);
}

/// Each class of difference has its client and its sentence.
#[test]
fn every_difference_is_explained() {
    let config = "[policies.p]\nlimits = [\"2/s\"]\nexempt = [\"vip\"]\nblock = [\"eve\"]\n";
    let log: String = [
        // The old one refuses an exempt client, and one that asks once; it lets a flood and a blocked client pass.
        ("vip", 0, 429),
        ("once", 0, 429),
        ("flood", 0, 200),
        ("flood", 0, 200),
        ("flood", 0, 200),
        ("eve", 0, 200),
        // Both refuse this one, at different requests.
        ("both", 0, 429),
        ("both", 0, 200),
        ("both", 0, 200),
        ("both", 5, 200),
    ]
    .iter()
    .map(|(user, second, status)| {
        format!("{{\"time\":{second},\"user\":\"{user}\",\"status\":{status}}}\n")
    })
    .collect();
    let place = Place::with_config(config).file("log", &log);
    let arguments = ["compare", "log", "--old", "status == 429", "--key", "user"];
    let run = place.run(&arguments);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for sentence in [
        "one check of one client. Only the old limiter refuses: the policy exempts",
        "one check of one client. Only the old limiter refuses: the new policy never refuses",
        "one check of one client. Only the old limiter refuses: the new policy refuses these clients at other moments",
        "one check of one client. Only the new policy refuses: it blocks",
        "one check of one client. Only the new policy refuses: the old limiter never refuses",
        "one check of one client. Only the new policy refuses: the old limiter refuses these clients at other moments",
    ] {
        run.says(&[sentence]);
    }
    let json = place.run(&[&arguments[..], &["--json"]].concat()).json();
    assert_eq!(json["differences"].as_array().unwrap().len(), 6);
    assert_eq!((&json["old"], number(&json["clients"])), (&json!("status == 429"), 5));
}

/// A policy in shadow is compared by what it would refuse.
#[test]
fn shadow_policies_and_combined_logs() {
    let log: String = (0..8)
        .map(|n| {
            format!(
                "10.0.0.1 - - [08/Nov/2026:00:00:00 +0000] \"GET / HTTP/1.1\" {} 9\n",
                if n < 4 { 200 } else { 429 }
            )
        })
        .collect();
    let place =
        Place::with_config("[policies.p]\nshadow = true\nlimits = [\"2/s\"]\n").file("log", &log);
    let run = place.run(&["compare", "log", "--old", "status == 429", "--json"]);
    run.warns("read as --input combined");
    let json = run.json();
    let names = ["both_allow", "both_refuse", "only_old_refuses", "only_new_refuses"];
    assert_eq!(names.map(|name| number(&json[name])), [2, 4, 0, 2]);
}

#[test]
fn mistakes_are_explained() {
    let place = Place::new()
        .file("log", "{\"time\":1,\"status\":200}\n")
        .file("trace", "{\"t_us\":1}\n")
        .file(
            "mixed",
            "{\"time\":1,\"allowed\":true}\n{\"time\":2}\n{\"time\":3,\"allowed\":\"perhaps\"}\n",
        );
    let compare = |flags: &[&str]| place.run(&[&["compare", "--limit", "1/s"], flags].concat());
    let run = compare(&["log"]);
    assert_eq!(run.code, Some(2));
    run.warns("has no field `allowed` that says what the old limiter decided; say it with --old");
    compare(&["trace", "--input", "trace"])
        .fails("a trace does not say what another limiter decided");
    compare(&["log", "--input", "jsonl", "--old", "status =="]).fails("--old:1:");
    let run = compare(&["mixed", "--json"]);
    let json = run.json();
    assert_eq!((run.code, number(&json["checks"])), (Some(0), 1));
    assert_eq!(json["remarks"][1]["skipped"], 2, "{json}");
    assert_eq!(place.run(&["compare", "log"]).code, Some(2), "without a policy");
}

/// Ctrl-C on a terminal ends `tail -f feed | waterclock compare` on both sides: the report comes all the same.
#[test]
fn a_live_feed_is_reported_when_it_is_interrupted() {
    let place = Place::new();
    let start = || {
        let mut child = place.command(&["compare", "--limit", "1/h"]).spawn().unwrap();
        let mut feed = child.stdin.take().unwrap();
        feed.write_all(b"{\"t_us\":0,\"key\":\"a\",\"allowed\":true}\n{\"t_us\":1,\"key\":\"a\",\"allowed\":true}\n").unwrap();
        let pid = Pid::from_child(&child);
        (child, feed, pid)
    };
    let (mut child, feed, pid) = start();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    kill_once_it_listens(pid);
    let mut line = String::new();
    while !line.contains("the report follows") {
        assert!(said.read_line(&mut line).unwrap() > 0, "{line}");
    }
    drop(feed);
    let mut report = String::new();
    child.stdout.take().unwrap().read_to_string(&mut report).unwrap();
    assert!(report.starts_with("they agree about 50.0 % of 2 checks"), "{report}");
    assert_eq!(child.wait().unwrap().code(), Some(0));

    // A second one ends it although the feed goes on.
    let (mut child, _feed, pid) = start();
    kill_once_it_listens(pid);
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("the report follows") {
        assert!(said.read_line(&mut line).unwrap() > 0, "{line}");
    }
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Sends SIGINT as soon as the kernel knows that the process catches it.
fn kill_once_it_listens(pid: Pid) {
    let status = format!("/proc/{}/status", pid.as_raw_nonzero());
    waterclock_conformance::real::await_that("it listens for SIGINT", || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        caught.is_some_and(|bits| bits & 2 != 0)
    });
    kill_process(pid, Signal::INT).unwrap();
}
