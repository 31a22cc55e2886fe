//! Stores that cannot be used are said in one sentence, and never with their password.

use waterclock_conformance::real::RedisServer;

use crate::support::Place;

const PASSWORD: &str = "hunter2";

/// What a replay says about a store that it cannot use.
#[track_caller]
fn complaint(store: &str) -> String {
    let place = Place::with_limits("\"5/s\"");
    let run = place.run_with_input(&["replay", "--store", store], "{\"t_us\":0}\n");
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{store}");
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(!run.stderr.contains(PASSWORD), "{}", run.stderr);
    run.stderr.trim_end().to_owned()
}

#[test]
fn addresses() {
    let must = "--store must be \"memory:\", or begin with redis://, rediss://, redis-cluster:// or redis-sentinel://; found";
    let cases = [
        ("mysql://h", format!("{must} \"mysql://h\"")),
        ("http://me:hunter2@h:1", format!("{must} \"http://…@h:1\"")),
        ("redis:/:hunter2@h", format!("{must} \"…@h\"")),
        ("redis://", format!("{must} \"redis://\"")),
        ("${URL}", format!("{must} \"${{URL}}\"")),
        (
            "redis://:hunter2@h,g",
            "the store's address `redis://…@h,g`: several hosts are a redis-cluster:// or redis-sentinel://".to_owned(),
        ),
        (
            "redis-sentinel://:hunter2@h",
            "the store's address `redis-sentinel://…@h`: name the service after the hosts, as in …:26379/mymaster".to_owned(),
        ),
        (
            "redis://:hunter2@h:port",
            "the store's address `redis://…@h:port`: it is not a valid Redis address".to_owned(),
        ),
    ];
    for (store, expected) in cases {
        assert_eq!(complaint(store), expected, "{store}");
    }
}

#[test]
fn no_server_listens() {
    let server = RedisServer::start();
    server.kill();
    let addr = server.addr();
    let addresses = [
        ("redis://me:hunter2@", ""),
        ("rediss://me:hunter2@", ""),
        ("redis-cluster://:hunter2@", ""),
        ("redis-sentinel://:hunter2@", "/main"),
    ];
    for (before, after) in addresses {
        let complaint = complaint(&format!("{before}{addr}{after}"));
        let scheme = before.split("://").next().unwrap();
        let start = format!("{scheme}://…@{addr}{after}: the store failed (unreachable): ");
        assert!(complaint.starts_with(&start), "{complaint}");
        assert!(complaint.ends_with("; check the address"), "{complaint}");
    }
}

#[test]
fn passwords() {
    let server = RedisServer::start_with(&[("requirepass", "open-sesame")]);
    let addr = server.addr();
    let wrong = complaint(&format!("redis://:{PASSWORD}@{addr}"));
    assert!(wrong.starts_with(&format!("redis://…@{addr}: the store failed (auth): ")), "{wrong}");
    assert!(wrong.ends_with("; check the user and the password"), "{wrong}");
    let none = complaint(&server.url());
    assert!(none.contains("the store failed (auth): "), "{none}");

    let place = Place::with_limits("\"5/s\"");
    let right = format!("redis://:open-sesame@{addr}");
    place.run_with_input(&["replay", "--store", &right], "{\"t_us\":0}\n").ok();

    // The same for a decision.
    let place = Place::with_config(&format!(
        "store = {{ url = \"redis://:${{PASSWORD}}@{addr}\", deadline = \"5s\" }}\n\
         [policies.p]\non_store_error = \"deny\"\nlimits = [\"5/s\"]\n"
    ));
    let check = |password| place.run_with(&[("PASSWORD", password)], &["check", "p", "alice"]);
    assert_eq!(check("open-sesame").code, Some(0));
    let wrong = check(PASSWORD);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(2), ""));
    wrong.warns("the store failed (auth)");
    assert!(!wrong.stderr.contains(PASSWORD), "{}", wrong.stderr);
}

#[test]
fn a_server_of_another_kind() {
    let server = RedisServer::start();
    let addr = server.addr();
    let lone = complaint(&format!("redis-cluster://{addr}"));
    assert!(lone.contains("cluster support disabled"), "{lone}");
    let replica = RedisServer::start();
    replica.command(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]).unwrap();
    let replica = complaint(&replica.url());
    assert!(
        replica.contains("the server is a replica, not a primary; name the primary"),
        "{replica}"
    );
}
