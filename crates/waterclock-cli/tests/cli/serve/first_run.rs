//! The first minutes: which file is served, where, and the demonstration with its administrator.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use waterclock_conformance::real::RedisServer;

use super::process::Serving;
use crate::support::Place;

const POLICY: &str = "[policies.mine]\nlimits = [\"5/h\"]\n";
/// Nothing listens, so that a server that starts by mistake ends at once.
const OFF: [(&str, &str); 3] =
    [("WATERCLOCK_HTTP", ""), ("WATERCLOCK_GRPC", ""), ("WATERCLOCK_RESP", "")];

/// The whole banner.
pub(super) fn banner(serving: &mut Serving) -> String {
    let mut said = Vec::new();
    serving.until("the banner", |serving| {
        said.extend(serving.said());
        let is_last = |line: &String| line.contains("CL.THROTTLE bob") || line.contains("Your own");
        said.iter().any(is_last)
    });
    said.join("\n")
}

/// The token of the demonstration's administrator.
fn token(banner: &str) -> String {
    let line = banner.lines().find(|line| line.trim().starts_with("Admin")).expect("a token");
    line.split_whitespace().nth(1).unwrap().to_owned()
}

#[test]
fn the_file_of_this_directory() {
    let mut serving = Serving::start_with(Place::with_config(POLICY), &["serve"], &[]);
    let said = banner(&mut serving);
    let title = "waterclock serves 1 policy of waterclock.toml in this directory";
    assert!(said.starts_with(title), "{said}");
    assert!(!said.contains("Admin"), "a configured server has the tokens of its file: {said}");
    assert!(serving.log().contains("configuration loaded file=\"waterclock.toml\""));
    assert_eq!(serving.client().check("mine", "k").status, 200);
    assert_eq!(serving.client().check("demo", "k").status, 404);
}

#[test]
fn the_demonstration_in_spite_of_a_file() {
    let place = Place::with_config(POLICY);
    let serving = Serving::start_with(place, &["serve", "--demo"], &[]);
    assert_eq!(serving.client().check("demo", "k").status, 200);
    let both = Place::with_config(POLICY).run(&["serve", "--demo", "-c", "waterclock.toml"]);
    assert_eq!(both.code, Some(2));
}

/// Whatever is wrong with the file, the demonstration is not what its author wants.
#[test]
fn a_broken_file_is_an_error() {
    let place = Place::with_config("[policies.p]\nlimit = [\"5/h\"]\n");
    let run = place.run_with(&OFF, &["serve"]);
    run.fails("waterclock.toml:2:1: ");
    let place = Place::new();
    std::os::unix::fs::symlink("nowhere.toml", place.path("waterclock.toml")).unwrap();
    place.run_with(&OFF, &["serve"]).fails("waterclock.toml: there is no such file");
    let place = Place::new();
    std::fs::create_dir(place.path("waterclock.toml")).unwrap();
    place.run_with(&OFF, &["serve"]).fails("waterclock.toml: this is a directory");
}

#[test]
fn flags_win_over_the_environment() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let environment = [("WATERCLOCK_HTTP", &*address), ("WATERCLOCK_GRPC", &address)];
    let place = Place::with_config(&format!("[server]\nhttp = \"{address}\"\n{POLICY}"));
    let arguments = ["serve", "--http", ":0", "--grpc", "", "--resp", "0"];
    let serving = Serving::start_with(place, &arguments, &environment);
    assert!(serving.http.ip().is_loopback(), "{}", serving.http);
    assert_eq!(serving.client().check("mine", "k").status, 200);
    assert!(!serving.log().contains("protocol=\"grpc\""), "{}", serving.log());
}

#[test]
fn addresses_that_flags_cannot_have() {
    let place = Place::with_config(POLICY);
    let fails = |arguments: &[&str], part: &str| {
        place.run_with(&OFF, &[&["serve"], arguments].concat()).fails(part);
    };
    fails(&["--http", "somewhere"], "--http must be an address and a port");
    fails(&["--resp", "70000"], "--resp must be an address and a port");
    fails(&["--http", "0.0.0.0:0"], "--http listens beyond this machine without `auth`");
    fails(&["--http", ""], "every listener is turned off");
    let demonstration = ["--demo", "--grpc", "0.0.0.0:0"];
    fails(&demonstration, "--grpc listens beyond this machine without `auth`");
}

#[test]
fn every_port_in_use_is_named_at_once() {
    let taken: Vec<TcpListener> =
        (0..2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let port = |at: usize| taken[at].local_addr().unwrap().port().to_string();
    let arguments = ["serve", "--demo", "--http", &port(0), "--grpc", "", "--resp", &port(1)];
    let run = Place::new().run(&arguments);
    assert_eq!((run.code, &*run.stdout), (Some(2), ""), "{}", run.stderr);
    let line = |face: &str, port: &str| {
        format!(
            "`{face}` cannot listen on 127.0.0.1:{port}: the port is in use; choose another address with --{face}, \
             WATERCLOCK_{} or `{face}` in [server], or turn it off with \"\"\n",
            face.to_uppercase()
        )
    };
    assert_eq!(run.stderr, line("http", &port(0)) + &line("resp", &port(1)));
    // An address of another machine is not a port in use.
    let place = Place::with_config(&format!("[server]\nallow_unauthenticated = true\n{POLICY}"));
    let run = place.run_with(&OFF, &["serve", "--http", "192.0.2.1:8080"]);
    run.fails("`http` cannot listen on 192.0.2.1:8080: ");
    assert!(!run.stderr.contains("in use"), "{}", run.stderr);
}

#[test]
fn the_administrator_of_the_demonstration() {
    let mut serving = Serving::start_with(Place::new(), &["serve"], &[]);
    let said = banner(&mut serving);
    let (token, url) = (token(&said), serving.url("http"));
    assert!(token.len() == 32 && !serving.log().contains(&token), "{said}");
    let place = Place::new().file("token", &token);
    // Checks and reads need no token.
    assert_eq!(place.run(&["check", "--server", &url, "demo", "alice"]).code, Some(0));
    place.run(&["keys", &url]).ok();
    let set = ["override", "set", "demo", "alice", "--block", "--server", &url];
    place.run(&set).fails("this needs a token with the role `admin`");
    place.run_with(&[("WATERCLOCK_TOKEN", "guess")], &set).fails("the token is not known");
    // The command of the banner, as it is.
    let line = said.lines().find(|line| line.contains("WATERCLOCK_TOKEN=")).unwrap().trim();
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_waterclock")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = std::process::Command::new("sh");
    let done = shell.args(["-c", line]).env("PATH", path).output().unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    let get = ["override", "get", "demo", "alice", "--server", &url, "--token-file", "token"];
    place.run(&get).ok().says(&["100"]);
    place.run(&["keys", &url, "--purge", "demo", "--token-file", "token"]).ok();
    // Keys are shown as they are.
    for _ in 0..9 {
        place.run(&["check", "--server", &url, "demo", "mallory"]);
    }
    place.run(&["top", &url, "--once", "--interval", "200ms"]).ok().says(&["mallory"]);
    // Another start has another token.
    let mut other = Serving::start_with(Place::new(), &["serve", "--demo"], &[]);
    assert!(!banner(&mut other).contains(&token));
}

/// The replies to some commands in the Redis protocol.
fn resp(serving: &Serving, commands: &str) -> String {
    let address = serving.url("resp").replace("redis://", "");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{commands}QUIT\r\n").as_bytes()).unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    replies
}

#[test]
fn the_administrator_in_the_redis_protocol() {
    let mut serving = Serving::start_with(Place::new(), &["serve"], &[]);
    let token = token(&banner(&mut serving));
    let admin = "RL.OVERRIDE demo bob GET\r\n";
    assert!(resp(&serving, "RL.CHECK demo bob\r\n").starts_with("*6\r\n:1\r\n"));
    assert!(resp(&serving, admin).starts_with("-NOPERM"), "{}", resp(&serving, admin));
    assert!(resp(&serving, "AUTH guess\r\n").starts_with("-WRONGPASS"));
    let replies = resp(&serving, &format!("AUTH {token}\r\n{admin}"));
    assert!(replies.starts_with("+OK\r\n") && !replies.contains("NOPERM"), "{replies}");
}

/// A server for machines prints no token, so it has no administrator.
#[test]
fn the_demonstration_without_a_banner() {
    let serving = Serving::start_with(Place::new(), &["serve", "--json"], &[]);
    assert_eq!(serving.client().check("demo", "k").status, 200);
    assert!(resp(&serving, "AUTH guess\r\n").starts_with("-ERR AUTH <password> called without"));
}

/// A store that the environment names may be that of other servers: nothing of theirs can be changed from here.
#[test]
fn the_demonstration_on_a_shared_store() {
    let redis = RedisServer::start();
    let variable = ("WATERCLOCK_STORE_URL", &*redis.url());
    let mut serving = Serving::start_with(Place::new(), &["serve"], &[variable]);
    let said = banner(&mut serving);
    assert!(said.contains("3 policies on the store of WATERCLOCK_STORE_URL"), "{said}");
    assert!(!said.contains("Admin") && !said.contains("WATERCLOCK_TOKEN"), "{said}");
    assert_eq!(serving.client().check("demo", "k").status, 200);
}
