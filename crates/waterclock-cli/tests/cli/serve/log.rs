//! The log: readable by machines, and without anything private in it.

use rustix::process::Signal;
use serde_json::Value;

use super::process::Serving;
use crate::support::Place;

const CONFIG: &str = "[server]\nauth = [{ token = \"${MY_TOKEN}\", roles = [\"admin\"] }]\n\
    [policies.p]\nlimits = [\"1/h\"]\n[policies.by]\nkey = [\"client_ip\", \"user\"]\nlimits = [\"1/h\"]\n";
const KEY: &str = "very-private-key";
const TOKEN: &str = "very-secret-token";
const GUESS: &str = "very-wrong-token";

/// All there is to do with a key and a token, well and badly.
fn be_busy(serving: &mut Serving) {
    let (good, bad) =
        (format!("authorization: Bearer {TOKEN}"), format!("authorization: Bearer {GUESS}"));
    let check = format!(r#"{{"policy":"p","key":"{KEY}"}}"#);
    let fields =
        format!(r#"{{"policy":"by","fields":{{"client_ip":"192.0.2.1","user":"{KEY}"}}}}"#);
    let broken = format!(r#"{{"policy":"p","key":"{KEY}""#);
    let authorize = format!("/v1/authorize?policy=p&key={KEY}");
    let at_key = format!("/v1/policies/p/keys/{KEY}");
    let its_override = format!("{at_key}/override");
    for line in [&good, &bad] {
        for (method, path, body) in [
            ("POST", "/v1/check", &*check),
            ("POST", "/v1/check", &check),
            ("POST", "/v1/check", &fields),
            ("POST", "/v1/check", &broken),
            ("GET", &authorize, ""),
            ("GET", &at_key, ""),
            ("PUT", &its_override, r#"{"block":true}"#),
            ("DELETE", &at_key, ""),
        ] {
            let mut client = serving.client();
            assert!(client.ask(method, path, &[line], body).is_some());
        }
    }
    // A client that gives up, nonsense, and a configuration with a secret in the wrong place.
    serving.client().begin();
    let nonsense = format!("/{KEY}\u{1}");
    _ = serving.client().ask("GET", &nonsense, &[&good], "");
    let secret_in_file = CONFIG.replace("${MY_TOKEN}", TOKEN);
    std::fs::write(serving.place().path("waterclock.toml"), secret_in_file).unwrap();
    serving.signal(Signal::HUP);
    serving.until("turned down", |serving| serving.log().contains("the old configuration stays"));
}

#[test]
fn nothing_private_is_in_it() {
    for level in ["debug", "trace"] {
        let environment = [("MY_TOKEN", TOKEN), ("WATERCLOCK_LOG", level)];
        let place = Place::with_config(CONFIG);
        let mut serving =
            Serving::start_with(place, &["serve", "-c", "waterclock.toml"], &environment);
        be_busy(&mut serving);
        serving.signal(Signal::TERM);
        assert_eq!(serving.ended().code(), Some(0));
        let all = format!("{}{}", serving.log(), serving.said().join("\n"));
        for private in [KEY, TOKEN, GUESS] {
            assert!(!all.contains(private), "{level}: {private}: {all}");
        }
    }
}

#[test]
fn for_machines_every_line_is_json() {
    for asked in [&["--log", "json"][..], &["--json"]] {
        let place = Place::with_config(CONFIG);
        let arguments = [&["serve", "-c", "waterclock.toml"], asked].concat();
        let environment = [("MY_TOKEN", TOKEN), ("WATERCLOCK_LOG", "debug")];
        let mut serving = Serving::start_with(place, &arguments, &environment);
        be_busy(&mut serving);
        serving.signal(Signal::TERM);
        assert_eq!(serving.ended().code(), Some(0));
        serving_has_said_nothing_else(&serving);
        let log = serving.log();
        let lines: Vec<Value> =
            log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        assert!(lines.iter().any(|line| line["fields"]["message"] == "stopped"), "{log}");
        assert!(lines.iter().all(|line| line["level"].is_string()), "{log}");
    }
}

fn serving_has_said_nothing_else(serving: &Serving) {
    assert_eq!(serving.said(), Vec::<String>::new(), "the banner is for people");
}

/// A client with a stale token may try again and again; it must not fill the log.
#[test]
fn an_unknown_token_is_logged_once() {
    let place = Place::with_config(CONFIG);
    let environment = [("MY_TOKEN", TOKEN)];
    let mut serving = Serving::start_with(place, &["serve", "-c", "waterclock.toml"], &environment);
    let mut client = serving.client();
    let line = format!("authorization: Bearer {GUESS}");
    for _ in 0..8 {
        assert_eq!(client.ask("POST", "/v1/check", &[&line], "{}").unwrap().status, 401);
    }
    serving.signal(Signal::TERM);
    assert_eq!(serving.ended().code(), Some(0));
    let log = serving.log();
    let of_address = |line: &&str| line.contains("unknown token") && line.contains("127.0.0.1");
    assert_eq!(log.lines().filter(of_address).count(), 1, "{log}");
}
