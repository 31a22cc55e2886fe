//! `CL.THROTTLE` answers as redis-cell does.

use std::thread::sleep;
use std::time::Duration;

use super::client::Value;
use super::ground::Ground;
use crate::at_work::AtWork;

#[test]
fn five_numbers() {
    let (_ground, mut client) = Ground::with_client();
    assert_eq!(client.numbers("CL.THROTTLE a 15 30 60"), [0, 16, 15, -1, 2]);
    assert_eq!(client.numbers("cl.throttle a 15 30 60 1"), [0, 16, 14, -1, 4]);
    assert_eq!(client.numbers("CL.THROTTLE a 15 30 60 14"), [0, 16, 0, -1, 32]);
    assert_eq!(client.numbers("CL.THROTTLE a 15 30 60"), [1, 16, 0, 2, 32]);
    assert_eq!(client.numbers("CL.THROTTLE a 15 30 60 3"), [1, 16, 0, 6, 32]);
    assert_eq!(client.numbers("CL.THROTTLE a 15 30 60 16"), [1, 16, 0, 32, 32]);
    // More than ever fits is refused, and no wait helps.
    assert_eq!(client.numbers("CL.THROTTLE a 15 30 60 17"), [1, 16, 0, -1, 32]);
    assert_eq!(client.numbers("CL.THROTTLE b 15 30 60 17"), [1, 16, 16, -1, 0]);
}

#[test]
fn nothing_peeks_and_less_gives_back() {
    let (_ground, mut client) = Ground::with_client();
    assert_eq!(client.numbers("CL.THROTTLE a 9 1 60 0"), [0, 10, 10, -1, 0]);
    assert_eq!(client.numbers("CL.THROTTLE a 9 1 60 7"), [0, 10, 3, -1, 420]);
    assert_eq!(client.numbers("CL.THROTTLE a 9 1 60 0"), [0, 10, 3, -1, 420]);
    assert_eq!(client.numbers("CL.THROTTLE a 9 1 60 -2"), [0, 10, 5, -1, 300]);
    assert_eq!(client.numbers("CL.THROTTLE a 9 1 60 -1000"), [0, 10, 10, -1, 0]);
    assert_eq!(client.numbers("CL.THROTTLE a 9 1 60 10"), [0, 10, 0, -1, 600]);
}

#[test]
fn complaints() {
    let (_ground, mut client) = Ground::with_client();
    let usage = "Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> \
                 [<quantity>]";
    for line in ["CL.THROTTLE", "CL.THROTTLE k", "CL.THROTTLE k 1 2", "CL.THROTTLE k 1 2 3 4 5"] {
        assert_eq!(client.error(line), usage, "{line}");
    }
    for line in ["k x 2 3", "k 1 x 3", "k 1 2 x", "k 1 2 3 x"] {
        let found = client.error(&format!("CL.THROTTLE {line}"));
        assert_eq!(found, "Cell error: Couldn't parse as integer: x", "{line}");
    }
    assert_eq!(
        client.error("CL.THROTTLE k 99999999999999999999 1 60"),
        "Cell error: Couldn't parse as integer: 99999999999999999999"
    );
    for line in ["k 1 0 60", "k 1 1 0", "k 1 0 0"] {
        let found = client.error(&format!("CL.THROTTLE {line}"));
        assert_eq!(found, "Cell error: Zero rates are not supported", "{line}");
    }
    for (line, name) in [("-1 1 60", "max_burst"), ("1 -1 60", "count"), ("1 1 -60", "period")] {
        let found = client.error(&format!("CL.THROTTLE k {line}"));
        assert!(found.starts_with(&format!("Cell error: {name} must not be negative")), "{found}");
    }
    // Numbers that no limit can have are refused, not wrapped.
    for line in ["9223372036854775807 1 60", "1 9223372036854775807 1", "1 1 9223372036854775807"] {
        let found = client.error(&format!("CL.THROTTLE k {line}"));
        assert!(found.starts_with("ERR "), "{found}");
    }
    let found = client.error("CL.THROTTLE k 9007199254740000 1 3000000000");
    assert!(found.contains("100 years"), "{found}");
    assert_eq!(client.numbers("CL.THROTTLE k +1 01 60"), [0, 2, 1, -1, 60]);
}

#[test]
fn rates_above_one_per_nanosecond_work() {
    let (_ground, mut client) = Ground::with_client();
    assert_eq!(client.numbers("CL.THROTTLE k 0 1000000000 1"), [0, 1, 0, -1, 0]);
    for _ in 0..3 {
        assert_eq!(client.numbers("CL.THROTTLE f 99 50000000000 1 100")[..2], [0, 100]);
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_was_used_comes_back_exactly_when_it_was_said_to() {
    let (_ground, mut client) = Ground::with_client();
    assert_eq!(client.numbers("CL.THROTTLE k 0 1 1"), [0, 1, 0, -1, 1]);
    assert_eq!(client.numbers("CL.THROTTLE k 0 1 1")[..4], [1, 1, 0, 1]);
    sleep(Duration::from_millis(1_001));
    assert_eq!(client.numbers("CL.THROTTLE k 0 1 1"), [0, 1, 0, -1, 1]);
}

#[test]
fn a_key_has_one_state_whatever_numbers_it_is_asked_with() {
    let (_ground, mut client) = Ground::with_client();
    // What is kept is the instant at which the key is full again, 100 s from here.
    assert_eq!(client.numbers("CL.THROTTLE k 9 1 10 10"), [0, 10, 0, -1, 100]);
    assert_eq!(client.numbers("CL.THROTTLE k 199 1 1 0"), [0, 200, 100, -1, 100]);
    assert_eq!(client.numbers("CL.THROTTLE k 199 1 1"), [0, 200, 99, -1, 101]);
    // That is 10.1 units of the first numbers, where 10 fit: even nothing is too much.
    assert_eq!(client.numbers("CL.THROTTLE k 9 1 10 0"), [1, 10, 0, 1, 101]);
    assert_eq!(client.numbers("CL.THROTTLE k 9 1 10 2"), [1, 10, 0, 21, 101]);
    assert_eq!(client.numbers("CL.THROTTLE k 4 1 1"), [1, 5, 0, 97, 101]);
    // More than one word of state, and back.
    assert_eq!(client.numbers("CL.THROTTLE k 799 7 1 5"), [0, 800, 88, -1, 102]);
    assert_eq!(client.ask(&["DEL", "k"]), Value::Integer(1));
    assert_eq!(client.numbers("CL.THROTTLE k 9 1 10 10"), [0, 10, 0, -1, 100]);
}

#[test]
fn a_restart_reopens_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("waterclock.toml");
    std::fs::write(&file, "[store]\nsnapshot = \"state\"\n").unwrap();
    let ground = Ground::of(|| AtWork::serving_file(&file));
    assert_eq!(ground.client().numbers("CL.THROTTLE k 9 1 60 10"), [0, 10, 0, -1, 600]);
    ground.stop().join().unwrap();
    let ground = Ground::of(|| AtWork::serving_file(&file));
    let mut client = ground.client();
    // No numbers have been used yet.
    assert_eq!(client.ask(&["DEL", "other"]), Value::Integer(0));
    let again = client.numbers("CL.THROTTLE k 9 1 60");
    assert_eq!(again[..3], [1, 10, 0]);
    assert!((30..=60).contains(&again[3]) && (570..=600).contains(&again[4]), "{again:?}");
}

#[test]
fn deleted_keys_are_fresh() {
    let (_ground, mut client) = Ground::with_client();
    client.numbers("CL.THROTTLE a 1 1 60 2");
    client.numbers("CL.THROTTLE b 2 1 60 2");
    assert_eq!(client.ask(&["DEL", "a", "b", "never"]), Value::Integer(2));
    assert_eq!(client.ask(&["DEL", "a"]), Value::Integer(0));
    assert_eq!(client.numbers("CL.THROTTLE a 1 1 60 2"), [0, 2, 0, -1, 120]);
    assert_eq!(client.error("DEL"), "ERR wrong number of arguments for 'del' command");
}

#[test]
fn decisions_are_counted_under_one_label() {
    let (ground, mut client) = Ground::with_client();
    for n in 0..3 {
        client.numbers(&format!("CL.THROTTLE k{n} 0 1 60"));
        client.numbers(&format!("CL.THROTTLE k{n} 0 1 60"));
        client.numbers(&format!("CL.THROTTLE k{n} 0 1 60 0"));
    }
    let text = ground.metrics();
    for outcome in ["allow", "deny"] {
        let line = format!(
            "waterclock_decisions_total{{policy=\"@throttle\",outcome=\"{outcome}\",face=\"resp\"}} 3"
        );
        assert!(text.contains(&line), "{line} is not in {text}");
    }
}
