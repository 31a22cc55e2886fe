//! Which fields there are, and what keys, costs, tiers and conditions make of them.

use serde_json::{Value, json};

use super::{events, line, replay, told};
use crate::support::Place;

const COMBINED: &[&str] = &["--input", "combined"];

fn place() -> Place {
    Place::with_limits("\"5/s\"")
}

fn log() -> String {
    line(1, "192.0.2.1", "GET /api/v1/users?a=b HTTP/1.1", "200 1500 \"-\" \"Curl/8\" 0.3")
        + &line(2, "2001:db8:1:2:3::4", "POST /api/v1/orders HTTP/2.0", "503 - \"http://x/\" \"-\"")
        + &line(3, "192.0.2.99", "GET /health HTTP/1.1", "200 2")
}

#[track_caller]
fn keys(flags: &[&str]) -> Vec<Value> {
    events(&place(), &[COMBINED, flags].concat(), log())
        .iter()
        .map(|event| event[1].clone())
        .collect()
}

#[test]
fn keys_are_what_is_asked_for() {
    assert_eq!(keys(&[]), ["192.0.2.1", "2001:db8:1:2::/64", "192.0.2.99"]);
    assert_eq!(keys(&["--key", "remote_addr"]), ["192.0.2.1", "2001:db8:1:2:3::4", "192.0.2.99"]);
    assert_eq!(
        keys(&["--key", "net(client_ip, 24, 32) + ' ' + segments(path, 1)"]),
        ["192.0.2.0/24 /api", "2001:db8::/32 /api", "192.0.2.0/24 /health"]
    );
    assert_eq!(
        keys(&["--key", "or_else(lower(agent), or_else(referer, 'none'))"]),
        ["curl/8", "http://x/", "none"]
    );
    assert_eq!(
        keys(&["--key", "method + path + or_else(query, '') + protocol + status"]),
        [
            "GET/api/v1/usersa=bHTTP/1.1200",
            "POST/api/v1/ordersHTTP/2.0503",
            "GET/healthHTTP/1.1200"
        ]
    );
}

#[test]
fn costs_are_rounded_up() {
    let costs = |cost: &str| -> Vec<Value> {
        let flags = ["--input", "combined", "--cost", cost];
        events(&place(), &flags, log()).iter().map(|event| event[2].clone()).collect()
    };
    assert_eq!(costs("bytes"), [1500, 0, 2]);
    assert_eq!(costs("bytes / 1024"), [2, 0, 1]);
    assert_eq!(costs("if method == \"POST\" then 5 else 1"), [1, 5, 1]);
    assert_eq!(costs("or_else(extra_1, 0) * 10"), [3, 0, 0]);
}

#[test]
fn some_lines_do_not_count() {
    let conditions: [(&str, &[&str]); 4] = [
        ("status < 500 and not path ~ '/health'", &["192.0.2.1"]),
        ("agent ~ 'Curl' or bytes == 2", &["192.0.2.1", "192.0.2.99"]),
        ("agent != 'Curl/8'", &["2001:db8:1:2::/64", "192.0.2.99"]),
        ("query == 'a=b'", &["192.0.2.1"]),
    ];
    for (condition, expected) in conditions {
        assert_eq!(keys(&["--where", condition]), expected, "{condition}");
    }
    let run = replay(&place(), &["--input", "combined", "--where", "status == 418"], log());
    assert_eq!(run.code, Some(0));
    assert_eq!(run.stderr, "warning: --where leaves out all 3 lines\n");
}

#[test]
fn a_tier_of_the_policy() {
    let config = "[policies.p]\ntiers = { staff = { factor = 0 }, free = { factor = 1 } }\nlimits = [\"1/h\"]\n";
    let place = Place::with_config(config);
    let log = r#"{"time":1,"plan":"staff"}
{"time":2,"plan":"staff"}
{"time":3,"plan":"free"}
{"time":4}
"#;
    let run = replay(&place, &["--input", "jsonl", "--key", "'k'", "--tier", "plan"], log);
    let allowed: Vec<Value> = run.lines().iter().map(|line| line["allowed"].clone()).collect();
    assert_eq!(allowed, [true, true, true, false]);
}

/// As the server forms them, byte for byte.
#[test]
fn keys_of_the_policy() {
    let with_key =
        |key: &str| Place::with_config(&format!("[policies.p]\nkey = {key}\nlimits = [\"5/s\"]\n"));
    let both = with_key("[\"client_ip\", \"user\"]");
    let log = "192.0.2.1 - frank [01/Jan/1970:00:00:01 +0000] \"GET / HTTP/1.1\" 200 1\n\
        2001:db8::7 - zoë [01/Jan/1970:00:00:02 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let expected = [
        json!([1_000_000, "9:192.0.2.1,5:frank,", 1]),
        json!([2_000_000, "13:2001:db8::/64,4:zoë,", 1]),
    ];
    assert_eq!(events(&both, COMBINED, log), expected);
    let jsonl = "{\"ts\":1,\"client_ip\":\"192.0.2.1\",\"user\":\"frank\"}\n";
    assert_eq!(events(&both, &["--input", "jsonl"], jsonl), expected[..1]);
    let csv = "user,ts,client_ip\nfrank,1,192.0.2.1\n";
    assert_eq!(events(&both, &["--input", "csv"], csv), expected[..1]);
    let alone = with_key("[\"client_ip\"]");
    assert_eq!(events(&alone, COMBINED, log)[1][1], "2001:db8::/64");
    // A log without them uses the default key.
    let run = replay(&with_key("[\"tenant\"]"), COMBINED, log);
    assert_eq!(
        run.stderr,
        "warning: policy `p` forms its keys from tenant, which the log does not have: the key is client_ip; choose another with --key\n"
    );
    assert_eq!(told(&run)[0][1], "192.0.2.1");
}

#[test]
fn keys_of_logs_without_addresses() {
    assert_eq!(
        events(&place(), &["--input", "jsonl"], r#"{"ts":1,"key":7}"#),
        [json!([1_000_000, "7", 1])]
    );
    let run = replay(&place(), &["--input", "csv", "--no-header", "--time", "f2"], "a,1\nb,2\n");
    assert_eq!(
        run.stderr,
        "warning: all lines have the same key; give each client its own with --key\n"
    );
    assert_eq!(told(&run), [json!([1_000_000, "", 1]), json!([2_000_000, "", 1])]);
}

#[test]
fn columns() {
    let csv = "\u{feff}time\tname of user\tsize\n1\tzoë\t2\n\n2\t\"a\"\"b\nc\"\t3\n";
    let flags = [
        "--input",
        "csv",
        "--delimiter",
        "tab",
        "--key",
        "field('name of user')",
        "--cost",
        "size + size",
    ];
    assert_eq!(
        events(&place(), &flags, csv),
        [json!([1_000_000, "zoë", 4]), json!([2_000_000, "a\"b\nc", 6])]
    );
    let flags =
        ["--input", "csv", "--delimiter", "|", "--no-header", "--time", "f2", "--key", "f1"];
    assert_eq!(events(&place(), &flags, "x|1"), [json!([1_000_000, "x", 1])]);
}

#[test]
fn mistakes_are_told_before_a_line_is_read() {
    let fields = "client_ip, ident, user, time, method, path, query, uri, protocol, status, bytes, referer, agent, host";
    let no_usr = format!(
        "--key:1:7: there is no field `usr` in this kind of log; did you mean `user`? (it has {fields}, and extra_1 to extra_9 after them)"
    );
    let cases: [(&[&str], &str); 23] = [
        (&["--input", "combined", "--key", "lower(usr)"], &no_usr),
        (
            &["--input", "combined", "--cost", "bytes /"],
            "--cost:1:8: expected a field, a number, a text in quotes or `(`; found the end",
        ),
        (
            &["--input", "combined", "--cost", "agent"],
            "--cost:1:1: expected a number; this is text; number(…) reads a number from text",
        ),
        (
            &["--input", "combined", "--cost", "bytes / 0"],
            "--cost:1:9: a number is divided by zero\n",
        ),
        (
            &["--input", "combined", "--cost", "if status > 399 then bytes / (2 - 2) else 1"],
            "--cost:1:31: a number is divided by zero\n",
        ),
        (
            &["--input", "combined", "--where", "status < number('x')"],
            "--where:1:10: \"x\" is not a number\n",
        ),
        (
            &["--input", "combined", "--key", "client_ip + 1 / 0"],
            "--key:1:17: a number is divided by zero\n",
        ),
        (
            &["--input", "combined", "--cost", "2 - 5"],
            "--cost: a cost must be from 0 to 18446744073709551615; found -3\n",
        ),
        (
            &["--input", "combined", "--where", "bytes"],
            "--where:1:1: expected a condition such as status >= 400; this is a number",
        ),
        (
            &["--input", "combined", "--tier", "or_els(user, '')"],
            "--tier:1:1: unknown function `or_els`; did you mean `or_else`?",
        ),
        (
            &["--input", "csv"],
            "the log has none of the columns t_us, time, timestamp, ts, @timestamp, date; name the one of the time with --time",
        ),
        (&["--input", "csv", "--time", "dat"], "--time: there is no column `dat` in this log"),
        (
            &["--input", "trace", "--key", "user"],
            "--key is for access logs; name their format with --input combined, jsonl or csv",
        ),
        (
            &["--input", "trace", "--reorder", "1m"],
            "--reorder is for access logs; name their format with --input combined, jsonl or csv",
        ),
        (
            &["--input", "trace", "--spread"],
            "--spread is for access logs; name their format with --input combined, jsonl or csv",
        ),
        (
            &["--input", "trace", "--strict"],
            "--strict is for access logs; name their format with --input combined, jsonl or csv",
        ),
        (
            &["--input", "trace", "--delimiter", ","],
            "--delimiter is for access logs; name their format with --input combined, jsonl or csv",
        ),
        (&["--input", "combined", "--delimiter", ";"], "--delimiter is for --input csv\n"),
        (&["--input", "jsonl", "--delimiter", ","], "--delimiter is for --input csv\n"),
        (&["--input", "combined", "--no-header"], "--no-header is for --input csv\n"),
        (&["--input", "jsonl", "--no-header"], "--no-header is for --input csv\n"),
        (
            &["--input", "combined", "--time-unit", "ms"],
            "--time-unit is for times that are numbers, but the time in brackets is not; name another field with --time\n",
        ),
        (
            &["--input", "csv", "--delimiter", ";;"],
            "a delimiter is one character such as ; or |, or tab",
        ),
    ];
    for (flags, expected) in cases {
        let run = replay(&place(), flags, log());
        assert_eq!(run.code, Some(2), "{flags:?}");
        run.warns(expected);
        assert_eq!(run.stdout, "");
    }
}
