//! Traces whose outcome is known.

use serde_json::{Value, json};

use waterclock_conformance::real::RedisServer;

use crate::support::Place;

/// Every millisecond from 0 to 30 000 inclusive, shifted by `start_us`.
fn every_millisecond(start_us: u64) -> String {
    (0..=30_000u64).map(|ms| format!("{{\"t_us\":{}}}\n", start_us + ms * 1_000)).collect()
}

fn without_time(mut line: Value) -> Value {
    line.as_object_mut().unwrap().remove("t_us");
    line
}

#[test]
fn three_per_second_admits_exactly_93() {
    let place = Place::with_limits("\"3/s\"");
    let lines = place.replay(&every_millisecond(0));
    assert_eq!(lines.len(), 30_001);
    assert_eq!(lines.iter().filter(|line| line["allowed"] == true).count(), 93);
    let today = place.replay(&every_millisecond(1_760_000_000_000_000));
    let same = lines.into_iter().map(without_time).eq(today.into_iter().map(without_time));
    assert!(same, "the epoch changes nothing");
}

#[test]
fn the_line_is_the_documented_one() {
    let place = Place::with_limits("\"5/s\"");
    let trace = "{\"t_us\": 1500000, \"key\": \"alice\", \"cost\": 1}\n";
    let run = place.run_with_input(
        &["replay", "-c", "waterclock.toml", "--policy", "p", "--format", "jsonl", "-"],
        trace,
    );
    assert_eq!(
        run.stdout,
        "{\"t_us\":1500000,\"key\":\"alice\",\"cost\":1,\"allowed\":true,\"granted\":1,\"limit\":5,\"remaining\":4,\
         \"retry_after_us\":0,\"next_unit_us\":200000,\"reset_after_us\":200000,\"refused_by\":[],\"next_same_us\":0}\n"
    );
}

#[test]
fn operations() {
    let place =
        Place::with_limits("{ algorithm = \"gcra\", limit = 2, per = \"1s\", name = \"two\" }");
    let trace = r#"
        {"t_us":0,"cost":2}
        {"t_us":0}
        {"t_us":0,"op":"refund"}
        {"t_us":0,"op":"peek","cost":2}
        {"t_us":0,"cost":3}
        {"t_us":0,"op":"reset","cost":2}
        {"t_us":0,"cost":0}
    "#;
    let told: Vec<Value> = place
        .replay(trace)
        .into_iter()
        .map(|line| {
            json!([
                line["allowed"],
                line["granted"],
                line["remaining"],
                line["retry_after_us"],
                line["op"],
                line["refused_by"]
            ])
        })
        .collect();
    let expected = [
        json!([true, 2, 0, 0, null, []]),
        json!([false, 0, 0, 500_000, null, ["two"]]),
        json!([true, 1, 1, 0, "refund", []]),
        json!([false, 0, 1, 500_000, null, ["two"]]),
        json!([false, 0, 1, null, null, ["two"]]),
        json!([true, 2, 2, 0, "reset", []]),
        json!([true, 0, 2, 0, null, []]),
    ];
    assert_eq!(told, expected);
}

#[test]
fn modes_and_shadow() {
    let nary = Place::with_config("[policies.p]\nmode = \"nary\"\nlimits = [\"5/s\"]");
    let line = &nary.replay("{\"t_us\":0,\"cost\":7}")[0];
    assert_eq!(
        json!([line["allowed"], line["granted"], line["refused_by"]]),
        json!([false, 5, []])
    );

    let shadow = Place::with_limits(
        "{ algorithm = \"gcra\", limit = 1, per = \"1s\", shadow = true }, \"5/s quota\"",
    );
    let lines = shadow.replay("{\"t_us\":0}\n{\"t_us\":0}");
    assert_eq!(lines[0].get("shadow_refused_by"), None);
    assert_eq!(lines[1]["shadow_refused_by"], json!(["gcra"]));
    assert_eq!(lines[1]["allowed"], true);
}

/// In both stores: when the same cost passes next, and the counter where refusals are counted.
#[test]
fn the_next_of_the_same_cost_and_the_counter() {
    let config = "[policies.p]\nmode = \"uniform\"\nlimits = [\"4/10s rolling-window\", \
                  { name = \"slow\", algorithm = \"fixed-window\", limit = 14, per = \"1m\" }]\n";
    let trace = "{\"t_us\":0,\"cost\":2}\n{\"t_us\":1000000,\"cost\":2}\n{\"t_us\":2000000,\"cost\":3}\n\
                 {\"t_us\":2000000,\"cost\":4}\n{\"t_us\":3000000,\"cost\":5,\"op\":\"peek\"}\n";
    let place = Place::with_config(config).file("trace.jsonl", trace);
    let here = place.run(&["replay", "trace.jsonl", "--format", "jsonl"]);
    let lines: Vec<Value> =
        here.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let all =
        |field: &str| -> Vec<Value> { lines.iter().map(|line| line[field].clone()).collect() };
    let seconds = |all: [u64; 4]| all.map(|s| json!(s * 1_000_000)).to_vec();
    // The first fits twice; later ones wait for the rolling window, and the last for the fixed one.
    assert_eq!(all("next_same_us")[..4], seconds([0, 9, 10, 58]), "{}", here.stderr);
    assert_eq!(all("next_same_us")[4], Value::Null, "never");
    // The least of 4 and 14 minus what was recorded, down to minus the limit.
    assert_eq!(all("counter"), [2, 0, -3, -4, -4].map(|n| json!(n)).to_vec());
    let redis = RedisServer::start();
    let there = place.run(&["replay", "trace.jsonl", "--format", "jsonl", "--store", &redis.url()]);
    assert_eq!(there.stdout, here.stdout, "{}", there.stderr);
}

#[test]
fn a_policy_without_limits_admits_everything() {
    let place = Place::with_limits("{ algorithm = \"legacy\", max = 5 }");
    let line = place.replay("{\"t_us\":0,\"key\":\"k\",\"cost\":9}").remove(0);
    let expected = json!({
        "t_us": 0, "key": "k", "cost": 9, "allowed": true, "granted": 9, "limit": null, "remaining": null,
        "retry_after_us": 0, "next_unit_us": null, "reset_after_us": 0, "refused_by": [], "next_same_us": 0
    });
    assert_eq!(line, expected);
}

#[test]
fn keys_are_any_string_and_do_not_share() {
    let place = Place::with_limits("\"1/s\"");
    let trace =
        "{\"t_us\":0,\"key\":\"a\\u00e9\\\"\\n\"}\n{\"t_us\":0,\"key\":\"b\"}\n{\"t_us\":0}\n";
    let lines = place.replay(trace);
    assert!(lines.iter().all(|line| line["allowed"] == true));
    assert_eq!(lines[0]["key"], "aé\"\n");
    assert_eq!(lines[2]["key"], "");
}

#[test]
fn calendar_months_of_a_time_zone() {
    let limit = "{ algorithm = \"fixed-window\", limit = 1, per = \"month\", align = \"calendar\", timezone = \"Europe/Berlin\" }";
    let place = Place::with_limits(limit);
    // 2025-10-31 22:59:59.999999 UTC is the last instant of October in Berlin.
    let trace =
        "{\"t_us\":1761951599999998}\n{\"t_us\":1761951599999999}\n{\"t_us\":1761951600000000}";
    let lines = place.replay(trace);
    assert_eq!(
        lines.iter().map(|line| line["allowed"].clone()).collect::<Vec<Value>>(),
        [true, false, true]
    );
    assert_eq!(lines[1]["retry_after_us"], 1);
}

#[test]
fn a_summary_by_default() {
    let place = Place::with_limits("\"1/s\"").file(
        "t",
        "{\"t_us\":0,\"key\":\"a\"}\n{\"t_us\":0,\"key\":\"a\"}\n{\"t_us\":0,\"key\":\"b\"}\n",
    );
    let run = place.run(&["replay", "t"]);
    let words: Vec<&str> = run.stdout.split_whitespace().collect();
    let expected = "33 % refused; 1 of 2 clients \
                    what to change: gcra from 1/s to 2/s: refuses 0 of 2 clients, not 1 \
                    events 3 checks 3 by 2 keys, from 0 s to 0 s allowed 2 66.7 % refused 1 33.3 % \
                    refused by limit 1 gcra most refused keys refused shadow-refused checks first last longest wait key \
                    1 0 of 2 0 s 0 s 1 s \"a\" when |█| most in the 1 ms from 0 s: 1 refused \
                    what the limit could be, by clients gcra: no client exceeds 2/s. \
                    gcra at refuses clients checks 1/s (now) 1 50.0 % 1 33.3 % 2/s 0 0 % 0 0 % \
                    to start with, so that 99.9 % of clients never notice \
                    [policies.p] limits = [ { algorithm = \"gcra\", limit = 2, per = \"1s\" }, ]";
    assert_eq!(words.join(" "), expected);
}
