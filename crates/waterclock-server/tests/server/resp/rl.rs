//! `RL.*`: the policies of the configuration.

use super::client::Value;
use super::ground::Ground;
use crate::at_work::hurried;
use waterclock::Store as _;

#[test]
fn six_numbers() {
    let (_ground, mut client) = Ground::with_client();
    assert_eq!(client.numbers("RL.CHECK login bob"), [1, 5, 4, 0, 3_600_000, 1]);
    let all = client.numbers("rl.check login bob 4");
    assert_eq!((&all[..4], all[5]), (&[1, 5, 0, 0][..], 4));
    let refused = client.numbers("RL.CHECK login bob 2");
    assert_eq!((&refused[..3], refused[5]), (&[0, 5, 0][..], 0));
    assert!((7_100_000..=7_200_000).contains(&refused[3]), "{refused:?}");
    assert!((17_900_000..=18_000_000).contains(&refused[4]), "{refused:?}");
    assert_eq!(client.numbers("RL.CHECK login bob 6")[3], -1, "never");
    assert_eq!(client.numbers("RL.PEEK login bob")[..3], [0, 5, 0]);
    assert_eq!(client.numbers("RL.PEEK login bob 0")[..3], [1, 5, 0]);
    assert_eq!(client.numbers("RL.REFUND login bob 3")[1..3], [5, 3]);
    assert_eq!(client.numbers("RL.RESET login bob")[..5], [1, 5, 5, 0, 0]);
    // Durations are rounded up, and a limit that counts no units says so.
    assert_eq!(client.numbers("RL.CHECK calm bob"), [1, -1, 0, 0, 3_600_000, 1]);
    // A shadow policy refuses nothing.
    assert_eq!(client.numbers("RL.CHECK watched bob")[0], 1);
    assert_eq!(client.numbers("RL.CHECK watched bob")[0], 1);
}

#[test]
fn what_is_said_about_single_keys_goes() {
    let (ground, mut client) = Ground::with_client();
    let blocked = client.numbers("RL.CHECK login mallory");
    assert_eq!((blocked[0], blocked[3]), (0, -1));
    for _ in 0..20 {
        assert_eq!(client.numbers("RL.CHECK login root 5")[0], 1);
    }
    assert_eq!(client.numbers("RL.CHECK login alice")[..3], [1, 100, 99]);

    assert_eq!(client.numbers("RL.CHECK login eve")[0], 1);
    let memory = ground.server.engine.memory().unwrap();
    let block = waterclock::KeyOverride::new("eve", waterclock::Override::Block);
    waterclock::store::now_or_never(memory.set_override("login", &block)).unwrap().unwrap();
    assert_eq!(client.numbers("RL.CHECK login eve")[0], 0);
}

#[test]
fn complaints() {
    let (_ground, mut client) = Ground::with_client();
    assert_eq!(
        client.error("RL.CHECK logn k"),
        "ERR there is no policy 'logn'; did you mean `login`?"
    );
    assert_eq!(client.error("RL.CHECK zzzzzz k"), "ERR there is no policy 'zzzzzz'");
    assert_eq!(
        client.error("RL.CHECK login k many"),
        "ERR the cost must be a whole number, not 'many'"
    );
    assert_eq!(
        client.error("RL.CHECK login k -1"),
        "ERR the cost must be a whole number, not '-1'"
    );
    for (line, name) in [
        ("RL.CHECK login", "rl.check"),
        ("RL.PEEK login k 1 TIER a FACTOR 2 JSON more", "rl.peek"),
        ("RL.REFUND login k", "rl.refund"),
        ("RL.RESET login k TIER a FACTOR 2 JSON more", "rl.reset"),
    ] {
        let text = format!("ERR wrong number of arguments for '{name}' command");
        assert_eq!(client.error(line), text);
    }
}

#[test]
fn a_partial_grant_says_how_much() {
    let ground =
        Ground::with("[policies.part]\nmode = \"partial\"\nlimits = [\"5/h\"]\n", hurried());
    let mut client = ground.client();
    let part = client.numbers("RL.CHECK part k 8");
    assert_eq!((&part[..4], part[5]), (&[0, 5, 0, -1][..], 5));
    let none = client.numbers("RL.CHECK part k 2");
    assert_eq!((none[0], none[5]), (0, 0));
}

#[test]
fn tiers_and_json() {
    let ground = Ground::with(
        "[policies.p]\nheaders = \"ietf\"\ntiers = { pro = { factor = 0.5 }, staff = { factor = 0 } }\n\
         limits = [{ name = \"hour\", algorithm = \"gcra\", limit = 2, per = \"1h\" }]\n",
        hurried(),
    );
    let mut client = ground.client();
    assert_eq!(client.numbers("RL.CHECK p k 2")[..3], [1, 2, 0]);
    // The budget is shared: two of four are used.
    assert_eq!(client.numbers("RL.CHECK p k TIER pro")[..3], [1, 4, 1]);
    assert_eq!(client.numbers("RL.PEEK p k 1 tier pro")[..3], [1, 4, 1]);
    assert_eq!(client.numbers("RL.CHECK p k 100 TIER staff")[0], 1);
    let Value::Array(reserved) = client.ask(&["RL.RESERVE", "p", "k", "1", "9000", "TIER", "pro"])
    else {
        panic!("numbers and an id")
    };
    assert_eq!((reserved.len(), &reserved[0]), (7, &Value::Integer(1)));
    let Value::Bulk(json) = client.ask(&["RL.CHECK", "p", "bob", "JSON", "TIER", "pro"]) else {
        panic!("a string")
    };
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((&json["allowed"], &json["limit"]), (&true.into(), &4.into()), "{json}");
    assert_eq!((&json["policy"], &json["key"]), (&"p".into(), &"bob".into()), "{json}");
    assert_eq!(json["limits"][0]["name"], "hour");
    assert_eq!(json["headers"]["ratelimit-policy"], "\"p.hour\";q=4;w=3600");
    for (line, text) in [
        ("RL.CHECK p k 1 TEIR pro", "unknown option 'TEIR'; TIER name, FACTOR decimal and JSON"),
        ("RL.CHECK p k TIER", "TIER must be followed by a tier's name"),
        ("RL.CHECK p k TIER gold", "policy `p` has no tier \"gold\"; it has `pro` and `staff`"),
        ("RL.RESERVE p k 1 9000 TIER gold", "policy `p` has no tier \"gold\""),
        (
            "RL.RESERVE p k 1 9000 LATER",
            "unknown option 'LATER'; TIER name, FACTOR decimal, ID id, RELEASE and JSON",
        ),
        ("RL.RESERVE p k 1 9000 ID", "ID must be followed by the reservation's id"),
        ("RL.RESERVE p k 1 9000 ID a\u{7f}b", "the id of a reservation is 1 to 128"),
        ("RL.CHECK p k 1 RELEASE", "unknown option 'RELEASE'; TIER name, FACTOR decimal and JSON"),
        ("RL.REFUND p k JSON", "the cost must be a whole number, not 'JSON'"),
        ("RL.RESET p k 5", "unknown option '5'"),
    ] {
        assert!(client.error(line).contains(text), "{line}: {}", client.error(line));
    }
}

#[test]
fn json_has_limit_info_for_legacy_headers() {
    let config = "[policies.p]\nheaders = \"legacy\"\nlimits = [{ max = 2, duration = 7200000 }]\n";
    let ground = Ground::with(config, hurried());
    let Value::Bulk(json) = ground.client().ask(&["RL.CHECK", "p", "bob", "JSON"]) else {
        panic!("a string")
    };
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["limit_info"]["remaining"], 1, "{json}");
    assert_eq!(json["limit_info"]["fullResetSec"], 3_600, "{json}");
}

#[test]
fn decisions_are_counted() {
    let (ground, mut client) = Ground::with_client();
    for _ in 0..7 {
        client.numbers("RL.CHECK login bob");
        client.numbers("RL.PEEK login bob");
        client.numbers("RL.CHECK watched bob");
    }
    client.numbers("RL.CHECK login mallory");
    let text = ground.metrics();
    for (policy, outcome, count) in
        [("login", "allow", 5), ("login", "deny", 3), ("watched", "shadow_deny", 6)]
    {
        let line = format!(
            "waterclock_decisions_total{{policy=\"{policy}\",outcome=\"{outcome}\",face=\"resp\"}} {count}"
        );
        assert!(text.contains(&line), "{line} is not in {text}");
    }
    assert!(text.contains("waterclock_decision_duration_seconds_count{face=\"resp\"}"), "{text}");
    assert!(!text.contains("bob"), "no key is in a metric");
}

#[test]
fn decisions_are_the_same_in_both_versions() {
    let ground = Ground::start();
    let (mut two, mut three) = (ground.client(), ground.client());
    three.ask(&["HELLO", "3"]);
    assert_eq!(two.ask(&["RL.CHECK", "login", "x"]), three.ask(&["RL.CHECK", "login", "y"]));
    assert_eq!(two.ask(&["PING"]), Value::Simple("PONG".to_owned()));
}

/// Of `login`, alice drew 6 986 of 10 000, and bob 3 740.
#[test]
fn keys_that_are_not_enrolled_are_watched() {
    let ground = Ground::with(
        "[policies.login]\nrollout = \"50%\"\nfactor = 0.5\nlimits = [\"2/h\"]\n",
        hurried(),
    );
    let mut client = ground.client();
    assert_eq!(client.numbers("RL.CHECK login bob 4")[..3], [1, 4, 0]);
    assert_eq!(client.numbers("RL.CHECK login bob")[..3], [0, 4, 0]);
    assert_eq!(client.numbers("RL.CHECK login alice 4")[..3], [1, 4, 0]);
    assert_eq!(client.numbers("RL.CHECK login alice")[..4], [1, 4, 0, 0]);
    assert_eq!(client.numbers("RL.PEEK login alice")[..4], [1, 4, 0, 0]);
    let metrics = ground.metrics();
    assert!(metrics.contains("outcome=\"shadow_deny\",face=\"resp\"} 1"), "{metrics}");
}
