//! What a change of the configuration changes, and for which keys.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::support::Place;

const OLD: &str = "[policies.api]\nlimits = [\"3/s\"]\n[policies.same]\nlimits = [\"1/s\"]\n";
const NEW: &str = "[policies.api]\nlimits = [\"5/s\", { name = \"minute\", algorithm = \"fixed-window\", limit = 40, per = \"1m\" }]\n[policies.same]\nlimits = [\"1/s\"]\n";

fn traffic() -> String {
    let mut random = fastrand::Rng::with_seed(9);
    let (mut t_us, mut trace) = (1_700_000_000_000_000_u64, String::new());
    for _ in 0..2_000 {
        t_us += random.u64(..120_000);
        let key = if random.bool() { 0 } else { random.u32(1..9) };
        writeln!(trace, "{{\"t_us\":{t_us},\"key\":\"k{key}\"}}").unwrap();
    }
    trace
}

fn place() -> Place {
    Place::new().file("old.toml", OLD).file("new.toml", NEW).file("trace", &traffic())
}

#[test]
fn every_change_is_one_between_the_decisions() {
    let place = place();
    let run = place.run(&["diff", "old.toml", "new.toml", "--trace", "trace", "--json"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    let tried = &run.json()["trace"];
    let decisions = |config: &str| {
        place.run(&["replay", "trace", "-c", config, "-p", "api", "--format", "jsonl"]).lines()
    };
    let (mut refused, mut admitted) = (0, 0);
    let mut keys: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    for (was, is) in decisions("old.toml").iter().zip(&decisions("new.toml")) {
        let key = keys.entry(was["key"].as_str().unwrap().to_owned()).or_default();
        key.0 += 1;
        match (was["allowed"].as_bool(), is["allowed"].as_bool()) {
            (Some(true), Some(false)) => (refused, key.1) = (refused + 1, key.1 + 1),
            (Some(false), Some(true)) => (admitted, key.2) = (admitted + 1, key.2 + 1),
            _ => {}
        }
    }
    assert!(refused > 20 && admitted > 20, "{refused} {admitted}");
    assert_eq!(
        (&tried["newly_refused"], &tried["newly_allowed"]),
        (&json!(refused), &json!(admitted))
    );
    for line in tried["most_changed_keys"].as_array().unwrap() {
        let (checks, refused, admitted) = keys[line["key"].as_str().unwrap()];
        let counts = ["checks", "newly_refused", "newly_allowed"].map(|name| &line[name]);
        assert_eq!(counts, [&json!(checks), &json!(refused), &json!(admitted)], "{line}");
    }
    assert_eq!(tried["most_changed_keys"][0]["key"], "k0");
    let by = |field: &str, limit: &str| tried[field][limit].as_u64().unwrap();
    assert_eq!(by("newly_allowed_by", "gcra"), admitted);
    assert!(by("newly_refused_by", "minute") + by("newly_refused_by", "gcra") >= refused);
}

#[test]
fn words_for_people() {
    let place = place();
    let run = place.run(&["diff", "old.toml", "new.toml", "--trace", "trace", "--html", "d.html"]);
    assert_eq!(run.code, Some(1));
    run.says(&[
        "policy api changed",
        "-   gcra: 3 requests per 1 s on average",
        "+   gcra: 5 requests per 1 s on average",
        "+   minute (fixed-window): up to 40 requests",
        "newly refused",
        "newly allowed",
        "keys that change most",
        "\"k0\"",
    ]);
    assert!(!run.stdout.contains("same"), "{}", run.stdout);
    let page = place.read("d.html");
    for part in ["clients newly refused", "Clients that change most", "which is new", "<svg"] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

#[test]
fn nothing_changes() {
    let place = place();
    let run = place.run(&["diff", "old.toml", "old.toml", "--trace", "trace", "--html", "d.html"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "no policy changes\n"));
    run.warns("there is no page to write");
    let run =
        place.run(&["diff", "old.toml", "old.toml", "--trace", "trace", "-p", "api", "--json"]);
    assert_eq!(run.code, Some(0));
    assert_eq!(run.json()["trace"]["newly_refused"], json!(0));
    assert_eq!(run.json()["trace"]["checks"], json!(2_000));
}

/// A policy that only one file has admits everything in the other.
#[test]
fn policies_come_and_go() {
    let place = place().file("none.toml", "[policies.same]\nlimits = [\"1/s\"]\n");
    let of = |old: &str, new: &str| -> Value {
        place.run(&["diff", old, new, "--trace", "trace", "--json"]).json()
    };
    let (comes, goes) = (of("none.toml", "old.toml"), of("old.toml", "none.toml"));
    assert_eq!(
        (&comes["policies"][0]["change"], &goes["policies"][0]["change"]),
        (&json!("added"), &json!("removed"))
    );
    let refused = comes["trace"]["new"]["refused"].as_u64().unwrap();
    assert!(refused > 100);
    assert_eq!(
        (&comes["trace"]["newly_refused"], &comes["trace"]["old"]["refused"]),
        (&json!(refused), &json!(0))
    );
    assert_eq!(
        (&goes["trace"]["newly_allowed"], &goes["trace"]["new"]["refused"]),
        (&json!(refused), &json!(0))
    );
}

#[test]
fn complaints_are_sentences() {
    let place = place()
        .file(
            "both.toml",
            "[policies.api]\nlimits = [\"9/s\"]\n[policies.same]\nlimits = [\"2/s\"]\n",
        )
        .file("bad", "{\"t_us\":5}\n{\"t_us\":4}\n");
    let cases: [(&[&str], i32, &str); 5] = [
        (
            &["old.toml", "both.toml", "--trace", "trace"],
            2,
            "2 policies change; choose one with --policy: `api`, `same`",
        ),
        (&["old.toml", "both.toml", "--trace", "trace", "-p", "apj"], 2, "did you mean `api`?"),
        (&["old.toml", "absent.toml"], 2, "absent.toml"),
        (&["old.toml", "new.toml", "--trace", "bad"], 2, "bad:2:1: time goes back from 5 to 4"),
        (&["old.toml", "new.toml", "--html", "d.html"], 2, "--trace"),
    ];
    for (arguments, code, complaint) in cases {
        let run = place.run(&[&["diff"], arguments].concat());
        assert_eq!(run.code, Some(code), "{arguments:?}: {}", run.stdout);
        run.warns(complaint);
    }
    let run = place.run(&["diff", "old.toml", "both.toml"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""), "words need no traffic");
}

/// A log has no keys of its own: each policy makes them of its own fields, as a replay does for one.
#[test]
fn keys_of_different_fields() {
    let log: String = (0..8)
        .map(|n| {
            format!("10.0.0.{n} - bob [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 9\n")
        })
        .collect();
    let of = |fields: &str| format!("[policies.p]\nkey = [{fields}]\nlimits = [\"5/s\"]\n");
    let place = Place::new()
        .file("log", &log)
        .file("both.toml", &of("\"client_ip\", \"user\""))
        .file("user.toml", &of("\"user\""))
        .file("none.toml", "[policies.q]\nlimits = [\"1/s\"]\n");
    let with = ["--trace", "log", "--input", "combined", "--json", "-p", "p"];
    let of = |old: &str, new: &str, flags: &[&str]| {
        let run = place.run(&[&["diff", old, new], &with[..], flags].concat());
        assert_eq!(run.stderr, "");
        assert_eq!(run.code, Some(1));
        run.json()["trace"].take()
    };
    let merged = of("both.toml", "user.toml", &[]);
    assert_eq!(
        (&merged["newly_refused"], &merged["newly_allowed"], &merged["keys_newly_refused"]),
        (&json!(3), &json!(0), &json!(1))
    );
    let told = "the old policy forms its keys from client_ip and user, the new one from user";
    assert!(merged["remarks"].to_string().contains(told), "{}", merged["remarks"]);
    assert_eq!(merged["most_changed_keys"][0]["key"], "bob");
    let parted = of("user.toml", "both.toml", &[]);
    assert_eq!((&parted["newly_refused"], &parted["newly_allowed"]), (&json!(0), &json!(3)));
    // Each side is what a replay of it says.
    for (config, side) in [("both.toml", "old"), ("user.toml", "new")] {
        let replay = ["replay", "log", "-c", config, "--input", "combined", "--json"];
        assert_eq!(merged[side]["refused"], place.run(&replay).json()["refused"], "{side}");
    }
    let same = of("both.toml", "user.toml", &["--key", "user"]);
    assert_eq!((&same["newly_refused"], &same["old"]["refused"]), (&json!(0), &json!(3)));
    // A policy that goes leaves its idea of a key behind.
    assert_eq!(of("user.toml", "none.toml", &[])["newly_allowed"], json!(3));
}

/// Whatever is said of single keys and their limits is a change.
#[test]
fn overrides_are_compared_whole() {
    let of = |limit: &str| {
        format!("[policies.p]\nlimits = [\"1/s\"]\noverrides = {{ c = [\"{limit}\"] }}\n")
    };
    let place =
        Place::new().file("old.toml", &of("100/s")).file("new.toml", &of("100/s sliding-window"));
    let run = place.run(&["diff", "old.toml", "new.toml"]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    run.says(&["+   override for \"c\": up to 100 requests per 1 s"]);
}
