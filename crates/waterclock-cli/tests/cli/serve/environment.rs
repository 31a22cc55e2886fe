//! The environment has the last word, and addresses that cannot be had.

use std::net::TcpListener;

use super::process::Serving;
use crate::support::Place;

const POLICY: &str = "[policies.p]\nlimits = [\"5/h\"]\n";

fn refused(environment: &[(&str, &str)], config: &str) -> String {
    let place = Place::with_config(config);
    let off = [("WATERCLOCK_HTTP", ""), ("WATERCLOCK_GRPC", ""), ("WATERCLOCK_RESP", "")];
    let all: Vec<_> = off.into_iter().chain(environment.iter().copied()).collect();
    let run = place.run_with(&all, &["serve", "-c", "waterclock.toml"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    run.stderr
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (variable, face) in [("WATERCLOCK_HTTP", "http"), ("WATERCLOCK_RESP", "resp")] {
        let complaint = refused(&[(variable, &address)], POLICY);
        let begins = format!("`{face}` cannot listen on {address}: ");
        assert!(complaint.starts_with(&begins), "{complaint}");
        assert!(complaint.contains("choose another address with --"), "{complaint}");
    }
}

#[test]
fn nothing_to_listen_on() {
    assert!(refused(&[], POLICY).starts_with("every listener is turned off"));
}

#[test]
fn an_address_beyond_this_machine() {
    let complaint = refused(&[("WATERCLOCK_HTTP", "0.0.0.0:0")], POLICY);
    assert!(complaint.starts_with("WATERCLOCK_HTTP listens beyond this machine"), "{complaint}");
    assert!(complaint.contains("allow_unauthenticated"), "{complaint}");
    assert!(
        refused(&[("WATERCLOCK_HTTP", "somewhere")], POLICY).starts_with("WATERCLOCK_HTTP must be")
    );
}

#[test]
fn no_such_log() {
    let complaint = refused(&[("WATERCLOCK_LOG", "loud")], POLICY);
    assert!(complaint.starts_with("WATERCLOCK_LOG must be error, warn"), "{complaint}");
}

#[test]
fn a_face_is_turned_off() {
    let place = Place::with_config(POLICY);
    let mut serving =
        Serving::start_with(place, &["serve", "-c", "waterclock.toml"], &[("WATERCLOCK_HTTP", "")]);
    let mut said = Vec::new();
    serving.until("the banner", |serving| {
        said.extend(serving.said());
        said.iter().any(|line| line.contains("Redis"))
    });
    assert!(!said.iter().any(|line| line.contains("HTTP") || line.contains("curl")), "{said:?}");
    assert!(!serving.log().contains("protocol=\"http\""), "{}", serving.log());
}

#[test]
fn a_token_from_the_environment() {
    let config = format!(
        "[server]\nauth = [{{ token = \"${{MY_TOKEN}}\", roles = [\"check\"] }}]\n{POLICY}"
    );
    let place = Place::with_config(&config);
    let unset =
        place.run_with(&[("WATERCLOCK_HTTP", "127.0.0.1:0")], &["serve", "-c", "waterclock.toml"]);
    assert_eq!(unset.code, Some(2));
    unset.warns("`MY_TOKEN`, which is not set");
    let environment = [("MY_TOKEN", "s3cret"), ("WATERCLOCK_HTTP", "0.0.0.0:0")];
    let mut serving = Serving::start_with(place, &["serve", "-c", "waterclock.toml"], &environment);
    serving.http.set_ip([127, 0, 0, 1].into());
    let body = r#"{"policy":"p","key":"k"}"#;
    let mut client = serving.client();
    let with = client.ask("POST", "/v1/check", &["authorization: Bearer s3cret"], body).unwrap();
    assert_eq!(with.status, 200, "{}", with.text);
    assert_eq!(client.check("p", "k").status, 401);
}
