//! A Redis store behind TLS, with an authority that only its owner knows.

use waterclock_conformance::real::RedisServer;

use crate::serve::process::Serving;
use crate::support::Place;

/// A place with a policy `p` of 10 an hour, on this server by TLS. The deadline is a patient one: the
/// machine may be busy.
fn place(server: &RedisServer, more: &str) -> Place {
    let url = server.tls_url();
    Place::with_config(&format!(
        "[store]\nurl = \"{url}\"\n{more}\ndeadline = \"5s\"\n[policies.p]\non_store_error = \"deny\"\nlimits = [\"10/h\"]\n"
    ))
    .file("ca.pem", server.ca_pem())
    .file("noise.pem", "-----BEGIN NOISE-----\n")
}

#[test]
fn a_named_authority_is_trusted() {
    let server = RedisServer::start_with_tls();
    let place = place(&server, "ca = \"ca.pem\"");
    let first = place.run(&["check", "p", "alice"]).ok();
    assert!(first.stdout.starts_with("allowed; 9 left"), "{}", first.stdout);
    // The server reads the same file, and finds what was spent.
    let serving = Serving::start(place);
    let second =
        serving.place().run(&["check", "--server", &serving.url("http"), "p", "alice"]).ok();
    assert!(second.stdout.starts_with("allowed; 8 left"), "{}", second.stdout);
}

#[test]
fn the_authority_is_found_beside_the_configuration() {
    let server = RedisServer::start_with_tls();
    let config = place(&server, "ca = \"ca.pem\"");

    Place::new().run(&["check", "-c", &config.path("waterclock.toml"), "p", "alice"]).ok();
}

#[test]
fn others_are_not() {
    let server = RedisServer::start_with_tls();
    let stranger = RedisServer::start_with_tls();
    let cases = [
        (
            "",
            "invalid peer certificate: UnknownIssuer; check the address, or name the authority's file as `ca` in [store]\n",
        ),
        ("ca = \"other.pem\"", "certificate"),
        (
            "ca = \"nowhere.pem\"",
            "waterclock.toml:3:6: `ca` names nowhere.pem: there is no such file\n",
        ),
        ("ca = \".\"", "this is a directory, not a file\n"),
        (
            "ca = \"noise.pem\"",
            "waterclock.toml:3:6: `ca` names noise.pem: contains no certificate in PEM format\n",
        ),
    ];
    for (more, sentence) in cases {
        let place = place(&server, more).file("other.pem", stranger.ca_pem());
        let run = place.run(&["check", "p", "alice"]);
        run.fails(sentence);
        // A file that is not there may be on another machine; one that is wrong is wrong.
        let is_wrong = more.contains("\".\"") || more.contains("noise");
        let code = if is_wrong { 2 } else { 0 };
        assert_eq!(place.run(&["validate"]).code, Some(code), "{more}");
    }
}

#[test]
fn a_server_does_not_start_without_the_authority_it_is_told() {
    let server = RedisServer::start_with_tls();
    let run = place(&server, "ca = \"nowhere.pem\"").run(&["serve", "-c", "waterclock.toml"]);
    assert_eq!(run.code, Some(2));
    let sentence = "waterclock.toml:3:6: `ca` names nowhere.pem: there is no such file";
    run.warns(sentence);
}
