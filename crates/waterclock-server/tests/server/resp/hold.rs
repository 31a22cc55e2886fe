//! `RL.RESERVE`, `RL.COMMIT`, `RL.CANCEL` and `RL.REPORT`.

use super::client::{Client, Value, command};
use super::ground::{Ground, POLICIES};
use crate::at_work::hurried;
use waterclock_conformance::real::await_that;

const MORE: &str = r#"
[policies.slots]
limits = [{ algorithm = "concurrency", limit = 2, lease = "1m" }]

[policies.backend]
limits = [{ algorithm = "error-rate", threshold = "50%", per = "1h", min_samples = 3, cool_down = "1h" }]
"#;

const FLOOD: &str = r#"
[policies.flood]
limits = [{ algorithm = "gcra", limit = 1000000, per = "1h" }]
"#;

fn start() -> Ground {
    Ground::with(&format!("{POLICIES}{MORE}"), hurried())
}

/// The numbers of a reservation, and its id.
fn reserve(client: &mut Client, line: &str) -> (Vec<i64>, Option<String>) {
    let words: Vec<&str> = line.split(' ').collect();
    let Value::Array(mut values) = client.ask(&words) else { panic!("{line}") };
    let id = match values.pop() {
        Some(Value::Bulk(id)) => Some(String::from_utf8(id).unwrap()),
        Some(Value::Null) => None,
        other => panic!("{line}: {other:?} is no id"),
    };
    let number = |value| match value {
        Value::Integer(number) => number,
        other => panic!("{line}: {other:?}"),
    };
    (values.into_iter().map(number).collect(), id)
}

#[test]
fn hold_and_settle() {
    let ground = start();
    let mut client = ground.client();
    let (numbers, id) = reserve(&mut client, "RL.RESERVE login bob 4 30000");
    assert_eq!(numbers[..4], [1, 5, 1, 0]);
    let id = id.expect("an id");
    let (refused, none) = reserve(&mut client, "RL.RESERVE login bob 2 30000");
    assert_eq!((refused[0], none), (0, None));
    assert!((3_500_000..=3_600_000).contains(&refused[3]), "{refused:?}");
    // Once, however often it is repeated.
    for _ in 0..2 {
        assert_eq!(client.ask(&["RL.COMMIT", &id, "1"]), Value::ok());
    }
    assert_eq!(client.numbers("RL.PEEK login bob")[2], 4);
    let (_, id) = reserve(&mut client, "rl.reserve login bob 4 1");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let gone = client.error(&format!("RL.CANCEL {}", id.unwrap()));
    assert!(gone.starts_with("ERR there is no reservation"), "{gone}");
    assert!(client.numbers("RL.PEEK login bob")[2] <= 1, "what was held stays charged");
}

#[test]
fn places_that_are_held_at_once() {
    let ground = start();
    let mut client = ground.client();
    client.ask(&["HELLO", "3"]);
    let (numbers, first) = reserve(&mut client, "RL.RESERVE slots k 1 60000");
    assert_eq!(numbers[..3], [1, 2, 1]);
    let (_, second) = reserve(&mut client, "RL.RESERVE slots k 1 60000");
    assert!(second.is_some());
    assert_eq!(reserve(&mut client, "RL.RESERVE slots k 1 60000").1, None);
    assert_eq!(client.ask(&["RL.CANCEL", &first.unwrap()]), Value::ok());
    assert!(reserve(&mut client, "RL.RESERVE slots k 1 60000").1.is_some());
    let check = client.error("RL.CHECK slots k");
    assert!(check.contains("only a reservation can hold"), "{check}");
    let long = client.error("RL.RESERVE slots k 1 60001");
    assert!(long.contains("leases for 60s at most"), "{long}");
    let text = ground.metrics();
    assert!(text.contains("waterclock_reservations{policy=\"slots\"} 2\n"), "{text}");
}

#[test]
fn blocked_exempt_and_overridden_keys() {
    let ground = start();
    let mut client = ground.client();
    let (blocked, none) = reserve(&mut client, "RL.RESERVE login mallory 1 1000");
    assert_eq!((blocked[0], blocked[3], none), (0, -1, None));
    let (_, exempt) = reserve(&mut client, "RL.RESERVE login root 500 1000");
    assert_eq!(client.ask(&["RL.COMMIT", &exempt.unwrap(), "900"]), Value::ok());
    assert_eq!(reserve(&mut client, "RL.RESERVE login alice 60 1000").0[..3], [1, 100, 40]);
}

/// A cost of 0 holds nothing, and is an error; others fill their policy's share for a day, and no other's.
#[test]
fn a_flood_under_one_policy() {
    let text = format!("[store]\nmax_keys = 10000\n{POLICIES}{FLOOD}");
    let ground = Ground::with(&text, hurried());
    let mut client = ground.client();
    for key in ["k", "root"] {
        let nothing = client.error(&format!("RL.RESERVE login {key} 0 86400000"));
        assert!(nothing.starts_with("ERR the cost of a reservation must be at least 1"));
        assert!(nothing.contains("`report`"), "{nothing}");
    }
    let one = command(&["RL.RESERVE", "flood", "k", "1", "86400000"]);
    let (mut held, mut refused) = (0, 0);
    // There are 1,024 places.
    for _ in 0..15 {
        client.send(&one.repeat(100));
        for _ in 0..100 {
            match client.read() {
                Value::Array(values) if matches!(values[6], Value::Bulk(_)) => held += 1,
                Value::Error(error) => {
                    assert!(error.contains("1024 KiB"), "{error}");
                    refused += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!((512..1_024).contains(&held) && refused > 0, "{held}");
    let (numbers, id) = reserve(&mut client, "RL.RESERVE login bob 4 86400000");
    assert_eq!(numbers[..4], [1, 5, 1, 0]);
    assert_eq!(client.ask(&["RL.COMMIT", &id.unwrap(), "1"]), Value::ok());
    assert_eq!(client.numbers("RL.PEEK login bob")[2], 4);
}

#[test]
fn reports_open_a_breaker() {
    let ground = start();
    let mut client = ground.client();
    for outcome in ["ok", "ERROR"] {
        assert_eq!(client.numbers(&format!("RL.REPORT backend k {outcome}"))[..4], [1, -1, -1, 0]);
    }
    assert_eq!(client.numbers("RL.CHECK backend k")[0], 1);
    let opened = client.numbers("RL.REPORT backend k error");
    assert_eq!(opened[0], 0);
    assert!((3_590_000..=3_600_000).contains(&opened[3]), "{opened:?}");
    assert_eq!(client.numbers("RL.CHECK backend k")[0], 0);
    assert_eq!(client.numbers("RL.CHECK backend other")[0], 1);
}

#[test]
fn complaints() {
    let ground = start();
    let mut client = ground.client();
    for (line, says) in [
        ("RL.RESERVE login k 1", "wrong number of arguments for 'rl.reserve'"),
        ("RL.COMMIT i", "wrong number of arguments for 'rl.commit'"),
        ("RL.CANCEL i 1", "wrong number of arguments for 'rl.cancel'"),
        ("RL.REPORT login k", "wrong number of arguments for 'rl.report'"),
        ("RL.RESERVE logn k 1 1000", "there is no policy 'logn'"),
        ("RL.RESERVE login k -1 1000", "the cost must be a whole number"),
        ("RL.RESERVE login k 1 0", "the ttl must be from 1 to 86400000 milliseconds, not '0'"),
        ("RL.RESERVE login k 1 86400001", "the ttl must be"),
        ("RL.RESERVE login k 1 soon", "the ttl must be"),
        ("RL.COMMIT unknown 1", "there is no reservation `unknown`"),
        ("RL.COMMIT unknown many", "the cost must be a whole number"),
        ("RL.CANCEL unknown", "there is no reservation `unknown`"),
        ("RL.REPORT backend k fine", "report ok, error or a cost, not 'fine'"),
        ("RL.REPORT login k ok", "policy 'login' has no error-rate limit"),
        ("RL.REPORT logn k ok", "there is no policy 'logn'"),
    ] {
        let found = client.error(line);
        assert!(found.starts_with("ERR ") && found.contains(says), "{line}: {found}");
    }
    let long = "x".repeat(129);
    for id in ["", "with space", "\u{e9}", &long] {
        let Value::Error(text) = client.ask(&["RL.CANCEL", id]) else { panic!("an error") };
        assert!(text.contains("1 to 128 printable"), "{text}");
    }
}

#[test]
fn a_pipeline_keeps_its_order() {
    let ground = start();
    let mut client = ground.client();
    let (_, id) = reserve(&mut client, "RL.RESERVE login k 5 60000");
    let mut bytes = command(&["RL.CHECK", "login", "k"]);
    bytes.extend(command(&["RL.CANCEL", &id.unwrap()]));
    bytes.extend(command(&["RL.CHECK", "login", "k"]));
    use std::io::Write;
    client.stream().try_clone().unwrap().write_all(&bytes).unwrap();
    let allowed = |value| match value {
        Value::Array(numbers) => numbers[0] == Value::Integer(1),
        other => panic!("{other:?}"),
    };
    assert!(!allowed(client.read()));
    assert_eq!(client.read(), Value::ok());
    assert!(allowed(client.read()));
}

/// The decision of a command in JSON.
fn decision(client: &mut Client, line: &str) -> serde_json::Value {
    let words: Vec<&str> = line.split(' ').collect();
    let Value::Bulk(json) = client.ask(&words) else { panic!("{line}: a string") };
    serde_json::from_slice(&json).unwrap()
}

#[test]
fn every_verb_answers_in_json() {
    let ground = Ground::with("[policies.p]\nlimits = [\"5/h\"]\n", hurried());
    let mut client = ground.client();
    let held = decision(&mut client, "RL.RESERVE p k 3 60000 RELEASE ID mine JSON");
    assert_eq!((&held["allowed"], &held["remaining"]), (&true.into(), &2.into()), "{held}");
    assert_eq!(held["reservation"]["id"], "mine");
    assert!(held["reservation"]["expires_in_us"].as_u64().unwrap() <= 60_000_000, "{held}");
    // By the caller's own id it is made once.
    let again = decision(&mut client, "RL.RESERVE p k 3 60000 RELEASE ID mine JSON");
    assert_eq!((&again["reservation"]["id"], &again["remaining"]), (&"mine".into(), &2.into()));
    let refused = decision(&mut client, "RL.RESERVE p k 3 60000 JSON");
    assert_eq!((&refused["allowed"], refused.get("reservation")), (&false.into(), None));
    assert_eq!(decision(&mut client, "RL.REFUND p k 1 JSON")["remaining"], 3);
    assert_eq!(decision(&mut client, "RL.RESET p k JSON")["remaining"], 5);
    // A cost that is known only afterwards, into debt.
    assert_eq!(client.numbers("RL.REPORT p k 7")[..3], [0, 5, 0]);
    assert_eq!(decision(&mut client, "RL.REPORT p other 2 JSON")["remaining"], 3);
    assert_eq!(client.error("RL.REPORT p k 7x"), "ERR the cost must be a whole number, not '7x'");
}

#[test]
fn a_release_is_given_back_in_time() {
    let ground = Ground::with("[policies.p]\nlimits = [\"5/h\"]\n", hurried());
    let mut client = ground.client();
    assert_eq!(reserve(&mut client, "RL.RESERVE p k 4 1 RELEASE").0[..3], [1, 5, 1]);
    assert_eq!(reserve(&mut client, "RL.RESERVE p kept 4 1").0[..3], [1, 5, 1]);
    await_that("the units are back", || client.numbers("RL.PEEK p k")[2] == 5);
    assert_eq!(client.numbers("RL.PEEK p kept")[2], 1);
}
