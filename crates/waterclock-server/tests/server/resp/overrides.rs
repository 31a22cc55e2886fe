//! `RL.OVERRIDE`, and `FACTOR`.

use super::client::{Client, Value};
use super::ground::{Ground, POLICIES};
use crate::at_work::{auth, hurried};

fn administered() -> (Ground, Client) {
    let auth = auth(&[("root", "admin")]);
    let ground = Ground::with(&format!("{auth}{POLICIES}"), hurried());
    let mut client = ground.client();
    assert_eq!(client.ask(&["AUTH", "root"]), Value::ok());
    (ground, client)
}

fn json(value: &Value) -> serde_json::Value {
    let Value::Bulk(bytes) = value else { panic!("{value:?}") };
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn set_get_clear() {
    let (_ground, mut client) = administered();
    let on = |rest: &[&'static str]| [&["RL.OVERRIDE", "login", "eve"], rest].concat();
    assert_eq!(client.ask(&on(&["GET"])), Value::Null);
    assert_eq!(client.ask(&on(&["CLEAR"])), Value::Integer(0));
    assert_eq!(client.ask(&on(&["SET", r#"{"limits":["7/h"]}"#])), Value::ok());
    assert_eq!(client.numbers("RL.CHECK login eve")[..3], [1, 7, 6]);
    assert_eq!(client.ask(&on(&["set", r#"{"factor":0.5}"#, "EX", "3600"])), Value::ok());
    let shown = json(&client.ask(&on(&["GET"])));
    assert_eq!(shown["factor"], 0.5);
    let left = shown["expires_in_us"].as_u64().unwrap();
    assert!((3_000_000_000..=3_600_000_000).contains(&left), "{left}");
    assert_eq!(client.numbers("RL.PEEK login eve")[1], 10);
    assert_eq!(client.ask(&on(&["SET", r#"{"block":true}"#])), Value::ok());
    assert_eq!(client.numbers("RL.CHECK login eve")[0], 0);
    assert_eq!(json(&client.ask(&on(&["GET"]))), serde_json::json!({"block": true}));
    assert_eq!(client.ask(&on(&["CLEAR"])), Value::Integer(1));
    assert_eq!(client.numbers("RL.CHECK login eve")[..2], [1, 5]);
    // Keys are any bytes here.
    let binary: [&[u8]; 5] = [b"RL.OVERRIDE", b"login", b"\xff\r\n", b"SET", b"{\"block\":true}"];
    assert_eq!(client.ask(&binary), Value::ok());
    let refused = client.ask(&[&b"RL.CHECK"[..], b"login", b"\xff\r\n"]);
    assert!(matches!(refused, Value::Array(numbers) if numbers[0] == Value::Integer(0)));
}

#[test]
fn mistakes_are_explained() {
    let (_ground, mut client) = administered();
    for (rest, says) in [
        (&["SET"][..], "wrong number of arguments"),
        (&["GET", "x"], "wrong number of arguments"),
        (&["DROP"], "SET, GET and CLEAR are known"),
        (&["SET", "{}"], "an override must have one of"),
        (&["SET", r#"{"factor":-1}"#], "must not be negative"),
        (&["SET", r#"{"tier":"gold"}"#], "has no tier `gold`"),
        (&["SET", r#"{"block":true}"#, "EX"], "EX seconds may follow"),
        (&["SET", r#"{"block":true}"#, "EX", "0"], "EX must be from 1 second"),
        (&["SET", r#"{"block":true}"#, "PX", "5"], "EX seconds may follow"),
        (&["SET", r#"{"block":true,"expires_in":"2d"}"#, "EX", "5"], "not both"),
    ] {
        let line = [&["RL.OVERRIDE", "login", "k"], rest].concat();
        let Value::Error(text) = client.ask(&line) else { panic!("{rest:?}") };
        assert!(text.starts_with("ERR ") && text.contains(says), "{rest:?}: {text}");
    }
    assert!(client.error("RL.OVERRIDE logn k GET").contains("did you mean `login`"));
}

#[test]
fn an_open_server_has_no_administrators() {
    let (_ground, mut client) = Ground::with_client();
    assert!(client.error("RL.OVERRIDE login k GET").starts_with("NOPERM "));
}

#[test]
fn a_factor_scales_one_command() {
    let (_ground, mut client) = Ground::with_client();
    assert_eq!(client.numbers("RL.CHECK login k 8 FACTOR 0.5")[..3], [1, 10, 2]);
    assert_eq!(client.numbers("RL.PEEK login k FACTOR 0.25")[1], 20);
    assert_eq!(client.numbers("RL.CHECK login k FACTOR 1")[0], 0);
    assert_eq!(client.numbers("RL.CHECK login k 100 factor 0")[0], 1);
    let Value::Array(held) = client.ask(&["RL.RESERVE", "login", "k", "1", "1000", "FACTOR", ".5"])
    else {
        panic!()
    };
    assert_eq!(held[..3], [1, 10, 1].map(Value::Integer));
    assert!(client.error("RL.CHECK login k FACTOR -1").contains("must not be negative"));
    assert!(client.error("RL.CHECK login k FACTOR x").contains("must be a decimal number"));
    assert!(client.error("RL.CHECK login k FACTOR").contains("followed by a decimal"));
    let far = client.error("RL.CHECK login k FACTOR 0.000000000000000001");
    assert!(far.starts_with("ERR ") && far.contains("cannot be scaled by"), "{far}");
}
