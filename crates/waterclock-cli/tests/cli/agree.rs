//! `validate` and `serve` refuse the same files with the same sentence.

use std::fmt::Write as _;

use crate::support::{Place, cases};

/// Files that are wrong by themselves, and the complaint about each.
const FILES: &str = r#"
[policies.p]
limits = ["1/q"]
=> 2:11: unknown period "q"; use s, m, h, d, w or a duration such as 1h30m
[server]
http = ""
grpc = ""
resp = ""
=> 1:1: every listener is turned off; give `http`, `grpc` or `resp` an address
[server]
http = "0.0.0.0:8080"
=> 2:8: `http` listens beyond this machine without `auth`
[store]
url = "redis://127.0.0.1:1"
[policies.p]
mode = "uniform"
limits = ["5/s fixed-window", { name = "all", algorithm = "sliding-window", limit = 9_007_199_254_740_991, per = "1s" }]
=> 5:31: limit `all` of policy `p`: in count-refusals mode, Redis counts up to 2^51; found 9007199254740991
[store]
url = "redis://127.0.0.1:1"
[policies.p]
limits = [{ algorithm = "gcra", limit = 5, per = "1s", min_interval = "1ms" }]
lease = { size = 10, ttl = "1s" }
=> 5:9: policy `p` cannot be leased: leases cannot enforce `min_interval`
[store]
url = "redis://127.0.0.1:1"
[policies.p]
shadow = true
limits = ["5/s"]
lease = { size = 10, ttl = "1s" }
=> 6:9: policy `p` cannot be leased: leases need `mode = "binary"` and a policy that is not in shadow
[store]
url = "redis://127.0.0.1:1"
[policies.p]
limits = ["5/s even-slots"]
lease = "auto"
=> 5:9: policy `p` cannot be leased: leases cannot enforce `min_interval`, even slots
[store]
url = "redis://127.0.0.1:1"
[defaults]
mode = "nary"
[policies.p]
limits = ["5/s"]
lease = { size = 10, ttl = "1s" }
=> 7:9: policy `p` cannot be leased: leases need `mode = "binary"`
[store]
url = "redis://127.0.0.1:1"
[policies.p]
limits = ["5/s"]
lease = { size = 10, ttl = "1s" }
overrides = { alice = ["5/s", "1/s even-slots"] }
=> 6:15: policy `p@key:
[store]
url = "redis://127.0.0.1:1,127.0.0.1:2"
=> 2:7: `url` cannot be used: the store's address `redis://127.0.0.1:1,127.0.0.1:2`: several hosts are a redis-cluster:// or redis-sentinel://
[store]
url = "redis-sentinel://127.0.0.1:1"
=> 2:7: `url` cannot be used: the store's address
"#;

/// The complaints of a command that must fail.
fn complaint(place: &Place, arguments: &[&str]) -> String {
    let run = place.run(arguments);
    assert_eq!((run.code, &*run.stdout), (Some(2), ""), "{arguments:?}: {}", run.stderr);
    run.stderr
}

const VALIDATE: [&str; 1] = ["validate"];
const CHECK_FILES: [&str; 2] = ["validate", "--check-files"];
const SERVE: [&str; 3] = ["serve", "-c", "waterclock.toml"];

#[test]
fn about_what_the_file_says() {
    for (config, expected) in cases(FILES) {
        let place = Place::with_config(&config);
        let validated = complaint(&place, &VALIDATE);
        assert!(
            validated.starts_with(&format!("waterclock.toml:{expected}")),
            "{config}\n{validated}"
        );
        assert_eq!(complaint(&place, &CHECK_FILES), validated, "{config}");
        assert_eq!(complaint(&place, &SERVE), validated, "{config}");
    }
}

/// Every policy with a problem is named in one run.
#[test]
fn several_at_once() {
    let config = "[store]\nurl = \"redis://127.0.0.1:1\"\n\
        [policies.a]\nshadow = true\nlimits = [\"5/s\"]\nlease = { size = 1, ttl = \"1s\" }\n\
        [policies.b]\nshadow = true\nlimits = [\"5/s\"]\nlease = { size = 1, ttl = \"1s\" }\n";
    let said = complaint(&Place::with_config(config), &VALIDATE);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("waterclock.toml:6:9: policy `a`"), "{said}");
    assert!(lines[1].starts_with("waterclock.toml:10:9: policy `b`"), "{said}");
}

#[test]
fn about_more_than_redis_can_share() {
    let overrides: Vec<String> = (0..450).map(|n| format!("k{n} = [\"{}/s\"]", n + 1)).collect();
    let config = |overrides: &[String]| {
        format!(
            "[store]\nurl = \"redis://127.0.0.1:1\"\n[policies.p]\nlimits = [\"9/s\"]\noverrides = {{ {} }}\n",
            overrides.join(", ")
        )
    };
    let place = Place::with_config(&config(&overrides));
    let validated = complaint(&place, &VALIDATE);
    assert!(validated.contains(":5:13: `tiers` and `overrides` are too many"), "{validated}");
    assert_eq!(complaint(&place, &SERVE), validated);
    Place::with_config(&config(&overrides[1..])).run(&VALIDATE).ok();
}

/// Two names in so many have the same mark in Redis.
#[test]
fn about_names_that_redis_cannot_tell_apart() {
    let names: Vec<String> = (0..60_000).map(|n| format!("p{n}")).collect();
    let (second, error) =
        waterclock_redis::check_names(names.iter().map(String::as_str)).unwrap_err();
    let sentence = error.to_string();
    let first =
        names.iter().find(|name| sentence.contains(&format!("of policy `{name}`"))).unwrap();
    let mut config = "[store]\nurl = \"redis://127.0.0.1:1\"\n".to_owned();
    for name in [first, &names[second]] {
        writeln!(config, "[policies.{name}]\nlimits = [\"1/s\"]").unwrap();
    }
    let place = Place::with_config(&config);
    let validated = complaint(&place, &VALIDATE);
    assert_eq!(validated, format!("waterclock.toml:5:11: {sentence}\n"));
    assert_eq!(complaint(&place, &SERVE), validated);
}

/// What is outside of the file may be on another machine: a warning, unless files are to be checked.
const OUTSIDE: &str = r#"
[server]
tls = { cert = "no.pem", key = "no.key" }
=> 2:7: `tls` names no.pem: there is no such file
[server]
auth = [{ token = "${NO_SUCH_TOKEN}", roles = ["check"] }]
=> 2:19: `token` needs the environment variable `NO_SUCH_TOKEN`, which is not set
[store]
url = "${NO_SUCH_URL}"
=> 2:7: `url` needs the environment variable `NO_SUCH_URL`, which is not set
[store]
url = "redis://127.0.0.1:1"
key_secret = "file:no-secret"
=> 3:14: `key_secret` is read from a file: no-secret: there is no such file
[store]
url = "rediss://127.0.0.1:1"
ca = "no-ca.pem"
=> 3:6: `ca` names no-ca.pem: there is no such file
[store]
snapshot = "no/such/directory"
=> 2:12: `snapshot` no/such/directory: cannot write no/such/directory.lock beside it: No such file or directory (os error 2); choose another path
"#;

#[test]
fn about_what_is_outside_of_the_file() {
    for (config, expected) in cases(OUTSIDE) {
        let place = Place::with_config(&format!("{config}\n[policies.p]\nlimits = [\"9/s\"]\n"));
        let checked = complaint(&place, &CHECK_FILES);
        assert_eq!(checked, format!("waterclock.toml:{expected}\n"), "{config}");
        assert_eq!(complaint(&place, &SERVE), checked, "{config}");
        let run = place.run(&VALIDATE);
        assert_eq!((run.code, run.stderr), (Some(0), format!("warning: {checked}")), "{config}");
    }
}

/// What is there and wrong is an error in any case.
#[test]
fn about_files_that_are_wrong() {
    for (config, expected) in [
        (
            "[server]\ntls = { cert = \"bad.pem\", key = \"bad.pem\" }",
            "2:7: `tls` names bad.pem: contains no certificate in PEM format",
        ),
        ("[store]\nurl = \"file:bad.pem\"", "2:7: `url` must be \"memory:\", or begin with"),
        (
            "[store]\nurl = \"rediss://h\"\nca = \"bad.pem\"",
            "3:6: `ca` names bad.pem: contains no certificate in PEM format",
        ),
        ("[store]\nsnapshot = \".\"", "2:12: `snapshot` . is not a file; choose another name"),
    ] {
        let place = Place::with_config(config).file("bad.pem", "nothing");
        let validated = complaint(&place, &VALIDATE);
        assert!(
            validated.starts_with(&format!("waterclock.toml:{expected}")),
            "{config}\n{validated}"
        );
        assert_eq!(complaint(&place, &SERVE), validated, "{config}");
    }
}

#[test]
fn settings_of_memory_have_no_effect_on_redis() {
    let config = "[store]\nurl = \"redis://127.0.0.1:1\"\nsnapshot = \"s\"\n[policies.p]\non_full = \"refuse\"\nlimits = [\"1/s\"]\n";
    let run = Place::with_config(config).run(&VALIDATE);
    assert_eq!(run.code, Some(0));
    run.warns("`snapshot` has no effect");
    run.warns("policy `p`: `on_full` has no effect");
}
