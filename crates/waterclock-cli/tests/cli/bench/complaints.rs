//! Errors of `bench` are one sentence.

use std::net::TcpListener;

use super::{CONFIG, bench, serve};
use crate::serve::process::Serving;
use crate::support::Place;

const GRPC: [&str; 4] = ["--domain", "d", "--descriptor", "user={key}"];

#[track_caller]
fn complains(url: &str, arguments: &[&str], sentence: &str) {
    let run = bench(url, &[arguments, &["--duration", "1s"]].concat());
    run.fails(sentence);
}

#[test]
fn faces_taken_for_others() {
    let serving = serve();
    let at = |face: &str, scheme: &str| {
        let url = serving.url(face);
        format!("{scheme}://{}", url.split_once("://").unwrap().1)
    };
    complains(&at("resp", "http"), &[], "check that this is its HTTP address");
    complains(&at("grpc", "http"), &[], "check that this is its HTTP address");
    complains(&at("http", "redis"), &[], "does not speak the Redis protocol");
    complains(&at("grpc", "redis"), &[], "check that it speaks the Redis protocol there");
    complains(&at("http", "grpc"), &GRPC, "check that this is its gRPC address");
    complains(&at("resp", "grpc"), &GRPC, "check that this is its gRPC address");
}

#[test]
fn closed_ports_and_other_machines() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    complains(&format!("http://{closed}"), &[], "cannot be reached: Connection refused");
    complains(&format!("redis://{closed}"), &[], "cannot be reached: Connection refused");
    complains(&format!("grpc://{closed}"), &GRPC, "cannot be reached: Connection refused");
    complains("http://192.0.2.1:80", &[], "is not a loopback address; use --remote");
    complains("http://0.0.0.0:80", &[], "is not a loopback address; use --remote");
    complains("https://192.0.2.1", &[], "is not a loopback address; use --remote");
}

#[test]
fn questions_that_make_no_sense() {
    let serving = serve();
    let (http, resp, grpc) = (serving.url("http"), serving.url("resp"), serving.url("grpc"));
    complains(&http, &["--policy", "wid"], "there is no policy `wid`; did you mean `wide`?");
    complains(&http, &["--policy", "zzz"], "there is no policy `zzz`; the server has `");
    complains(&http, &[], "choose one of the policies `");
    complains(&resp, &["--policy", "q"], "there is no policy 'q'");
    complains(&http, &["--pipeline", "2"], "--pipeline is for the Redis protocol");
    complains(&resp, &["--batch", "2"], "--batch is for HTTP");
    complains(&http, &["--domain", "d"], "--domain is for gRPC");
    complains(&grpc, &[], "name one with --domain and --descriptor");
    complains(&grpc, &["--domain", "d", "--descriptor", "user"], "must be NAME=VALUE");
    complains(&grpc, &["--domain", "d", "--descriptor", "=x"], "must be NAME=VALUE");
    complains(&http, &["--face", "redis"], "--face redis contradicts \"http://\"");
    let long = bench(&http, &["--duration", "2h"]);
    long.warns("--duration must be at most 1h");
}

#[test]
fn the_face_may_be_named_apart() {
    let serving = serve();
    let address = serving.url("resp").replace("redis://", "");
    for url in [&address, &format!("REDIS://{address}")] {
        bench(url, &["--face", "redis", "--policy", "wide", "--requests", "10"]).ok();
    }
}

#[test]
fn loopback_in_other_words() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    complains(&format!("http://[::ffff:127.0.0.1]:{closed}"), &[], "cannot be reached: ");
}

#[test]
fn a_load_of_nothing() {
    let serving = serve();
    let run = bench(&serving.url("http"), &["--policy", "wide", "--duration", "1us"]);
    assert_eq!(run.code, Some(2), "{}", run.stdout);
    let sentence =
        "nothing was decided: it was over before a request was sent; allow more with --duration\n";
    assert!(run.stderr.ends_with(sentence), "{}", run.stderr);
}

#[test]
fn tokens() {
    let config = format!(
        "[server]\nauth = [{{ token = \"${{MY_TOKEN}}\", roles = [\"check\"] }}]\n{CONFIG}"
    );
    let serving = Serving::start_with(
        Place::with_config(&config),
        &["serve", "-c", "waterclock.toml"],
        &[("MY_TOKEN", "t0ken")],
    );
    let place = Place::new().file("right", "t0ken\n").file("wrong", "guess\n");
    for face in ["http", "resp", "grpc"] {
        let url = serving.url(face);
        let rest: &[&str] = if face == "grpc" { &GRPC } else { &["--policy", "wide"] };
        let run =
            |file: &[&str]| place.run(&[&["bench", &*url, "--requests", "5"], rest, file].concat());
        run(&["--token-file", "right"]).ok();
        for file in [&["--token-file", "wrong"][..], &[]] {
            let wrong = run(file);
            assert_eq!(wrong.code, Some(2), "{face} {file:?}");
            wrong.warns("put the token into WATERCLOCK_TOKEN");
            assert_eq!(wrong.stderr.lines().count(), 1, "{}", wrong.stderr);
        }
    }
}
