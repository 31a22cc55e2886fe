//! More connections than the system's usual limit on open files, or than its hard one.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, prlimit};

use super::client::Client;
use super::process::Serving;
use crate::support::Place;

const POLICY: &str = "[policies.p]\nlimits = [\"1000/s\"]\n";

/// Starts with a soft limit of 64 open files, as many systems start processes with too few.
fn with_few_descriptors(place: Place) -> Serving {
    let line = "ulimit -Sn 64; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", line, env!("CARGO_BIN_EXE_waterclock"), "serve", "-c"])
        .arg(place.path("waterclock.toml"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Serving::spawn(command, place, &[])
}

#[test]
fn the_soft_limit_is_raised() {
    let serving = with_few_descriptors(Place::with_config(POLICY));
    let mut clients: Vec<Client> = (0..100).map(|_| serving.client()).collect();
    for client in &mut clients {
        assert_eq!(client.check("p", "k").status, 200);
    }
}

/// Every listener that cannot accept tries again every 50 ms, and must not fill the disk with that.
#[test]
fn running_out_is_logged_once_a_second() {
    let mut serving = Serving::start(Place::with_config(POLICY));
    let few = Rlimit { current: Some(40), maximum: Some(40) };
    prlimit(Some(serving.pid()), Resource::Nofile, few).unwrap();
    let clients: Vec<Client> = (0..60).map(|_| serving.client()).collect();
    let complaints = |serving: &Serving| serving.log().matches("cannot accept connections").count();
    serving.until("it complains", |serving| complaints(serving) > 0);
    let before = complaints(&serving);
    sleep(Duration::from_secs(2));
    let more = complaints(&serving) - before;
    assert!(more <= 10, "{more} lines in two seconds or a little more: {}", serving.log());
    drop(clients);
    assert_eq!(serving.client().check("p", "k").status, 200, "served again");
}
