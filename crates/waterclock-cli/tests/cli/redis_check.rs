//! Decisions by a Redis store, across runs, and by what stands in for it.

use serde_json::{Value, json};
use waterclock_conformance::real::RedisServer;

use crate::support::{Place, Run};

/// A place with a policy `p` of 10 an hour, on a store with these settings. The deadline is a patient
/// one: the machine may be busy.
fn place(settings: &str, on_store_error: &str) -> Place {
    Place::with_config(&format!(
        "[store]\n{settings}\ndeadline = \"5s\"\n[policies.p]\non_store_error = \"{on_store_error}\"\nlimits = [\"10/h\"]\n"
    ))
}

fn at(server: &RedisServer) -> String {
    format!("url = \"{}\"", server.url())
}

/// Of a check as JSON: allowed, limit, remaining and source.
fn told(run: &Run) -> Value {
    let answer = run.json();
    json!([answer["allowed"], answer["limit"], answer["remaining"], answer["source"]])
}

#[test]
fn what_was_charged_stays_charged() {
    let server = RedisServer::start();
    let place = place(&at(&server), "deny");
    let check = |arguments: &[&str]| place.run(&[&["check", "p"], arguments].concat());
    let first = check(&["alice", "--cost", "4", "--json"]).ok();
    assert_eq!(told(&first), json!([true, 10, 6, "authoritative"]));
    assert_eq!(
        told(&check(&["alice", "--cost", "4", "--json"])),
        json!([true, 10, 2, "authoritative"])
    );
    let refused = check(&["alice", "--cost", "4"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stdout.starts_with("refused by gcra; retry in "), "{}", refused.stdout);
    let looked = check(&["alice", "--cost", "0", "--json"]);
    assert_eq!(told(&looked), json!([true, 10, 2, "authoritative"]));
    assert_eq!(told(&check(&["bob", "--json"])), json!([true, 10, 9, "authoritative"]));
    assert_eq!(server.command(&["KEYS", "wc{*"]).as_array().len(), 2);
    // A sentence without --json, as ever.
    assert_eq!(check(&["alice"]).stdout.split(';').next(), Some("allowed"));
}

/// A Redis without replicas: what it decides could be lost.
#[test]
fn replicas_must_acknowledge() {
    let server = RedisServer::start();
    let place = place(&format!("{}\nreplicas = 1", at(&server)), "deny");
    let check = place.run(&["check", "p", "alice"]);
    assert_eq!(check.code, Some(2), "{}", check.stdout);
    assert!(check.stderr.contains("0 of 1 replicas acknowledged within"), "{}", check.stderr);
}

#[test]
fn the_environment_has_the_last_word() {
    let server = RedisServer::start();
    let place = Place::with_limits("\"10/h\"");
    let url = server.url();
    let check = |url: &str| {
        place.run_with(&[("WATERCLOCK_STORE_URL", url)], &["check", "p", "alice", "--json"])
    };
    assert_eq!(told(&check(&url)), json!([true, 10, 9, "authoritative"]));
    assert_eq!(told(&check(&url)), json!([true, 10, 8, "authoritative"]));
    for none in ["memory:", ""] {
        assert_eq!(told(&check(none)), json!([true, 10, 9, "authoritative"]));
    }
    let bad = check("http://me:hunter2@h");
    assert_eq!(bad.code, Some(2));
    assert_eq!(
        bad.stderr,
        "WATERCLOCK_STORE_URL must be \"memory:\", or begin with redis://, rediss://, redis-cluster:// or redis-sentinel://; found \"http://…@h\"\n"
    );
}

#[test]
fn settings_from_elsewhere() {
    let server = RedisServer::start();
    let port = server.port().to_string();
    let settings = "url = \"redis://127.0.0.1:${PORT}\"\nkey_secret = \"file:secret\"";
    let place = place(settings, "deny").file("secret", "one\n");
    let check = |place: &Place| {
        told(&place.run_with(&[("PORT", &port)], &["check", "p", "alice", "--json"]))
    };
    assert_eq!(check(&place), json!([true, 10, 9, "authoritative"]));
    // The end of a line is not part of a secret.
    let place = place.file("secret", "one");
    assert_eq!(check(&place), json!([true, 10, 8, "authoritative"]));
    // Under another secret the same key is another.
    let place = place.file("secret", "two");
    assert_eq!(check(&place), json!([true, 10, 9, "authoritative"]));
}

#[test]
fn a_file_is_found_beside_the_configuration() {
    let server = RedisServer::start();
    let place = Place::with_config("").file("url", &server.url()).file(
        "other.toml",
        "store.url = \"file:url\"\n[policies.p]\nlimits = [\"10/h\"]\non_store_error = \"deny\"",
    );
    let elsewhere = Place::new();
    let config = place.path("other.toml");
    let run = elsewhere.run(&["check", "-c", &config, "p", "alice", "--json"]);
    assert_eq!(told(&run), json!([true, 10, 9, "authoritative"]), "{}", run.stderr);
    assert_eq!(server.command(&["KEYS", "wc{*"]).as_array().len(), 1);
}

#[test]
fn settings_that_are_nowhere() {
    let cases = [
        (
            "url = \"${NO_SUCH_URL}\"",
            "waterclock.toml:2:7: `url` needs the environment variable `NO_SUCH_URL`, which is not set\n",
        ),
        (
            "url = \"${EMPTY}\"",
            "waterclock.toml:2:7: `url` needs the environment variable `EMPTY`, which is empty\n",
        ),
        (
            "url = \"${SECRET}\"",
            "waterclock.toml:2:7: `url` must be \"memory:\", or begin with redis://, rediss://, redis-cluster:// or redis-sentinel://; the value of the variable or file does neither\n",
        ),
        (
            "url = \"redis://h\"\nkey_secret = \"${NO_SUCH_SECRET}\"",
            "waterclock.toml:3:14: `key_secret` needs the environment variable `NO_SUCH_SECRET`, which is not set\n",
        ),
        (
            "url = \"redis://h\"\nkey_secret = \"file:nowhere\"",
            "waterclock.toml:3:14: `key_secret` is read from a file: nowhere: there is no such file\n",
        ),
        (
            "url = \"redis://h\"\nkey_secret = \"file:blank\"",
            "waterclock.toml:3:14: `key_secret` is read from blank, which is empty\n",
        ),
    ];
    for (settings, expected) in cases {
        let place = place(settings, "local").file("blank", "\n");
        let environment = [("EMPTY", ""), ("SECRET", "hunter2")];
        let run = place.run_with(&environment, &["check", "p", "alice"]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(2), expected), "{settings}");
        // Checking a file needs none of it.
        assert_eq!(place.run(&["validate"]).code, Some(0), "{settings}");
    }
}

#[test]
fn without_the_store() {
    let server = RedisServer::start();
    server.kill();
    let settings = format!("{}\nnodes = 5", at(&server));
    let check =
        |on_store_error| place(&settings, on_store_error).run(&["check", "p", "alice", "--json"]);

    let denied = check("deny");
    assert_eq!((denied.code, denied.stdout.as_str()), (Some(2), ""));
    let why = denied.stderr;
    let start = format!("{}: the store failed (unreachable): ", server.url());
    assert!(why.starts_with(&start) && why.ends_with("; check the address\n"), "{why}");
    assert_eq!(why.lines().count(), 1, "{why}");

    // One of five nodes admits a fifth.
    let local = check("local");
    assert_eq!((local.code, told(&local)), (Some(0), json!([true, 2, 1, "local"])));
    let expected = format!("warning: decided by this node's share of the limits, because {why}");
    assert_eq!(local.stderr, expected);

    let allowed = check("allow");
    assert_eq!((allowed.code, told(&allowed)), (Some(0), json!([true, 10, 10, "policy"])));
    let expected = format!("warning: allowed by `on_store_error`, because {why}");
    assert_eq!(allowed.stderr, expected);
}

/// The connection is open, but there is no answer.
#[test]
fn a_store_that_hangs() {
    let server = RedisServer::start();
    server.pause();
    let denied = place(&at(&server), "deny").run(&["check", "p", "alice"]);
    assert_eq!((denied.code, denied.stdout.as_str()), (Some(2), ""));
    denied.warns("the store failed (timeout)");
    let local = place(&at(&server), "local").run(&["check", "p", "alice", "--json"]);
    assert_eq!((local.code, told(&local)), (Some(0), json!([true, 10, 9, "local"])));
    server.resume();
}
