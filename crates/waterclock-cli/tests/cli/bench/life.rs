//! Interruptions: of the load, and of the server.

use std::process::Child;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{counted, pair, serve};
use crate::support::{Place, Run};
use crate::terminal::Terminal;

fn start(place: &Place, url: &str, arguments: &[&str]) -> Child {
    let arguments = [&["bench", url, "--policy", "wide", "--json"], arguments].concat();
    place.command(&arguments).spawn().unwrap()
}

#[test]
fn an_interrupt_still_reports() {
    let serving = serve();
    let place = Place::new();
    let child = start(&place, &serving.url("resp"), &["--duration", "1h"]);
    for _ in 0..2_000 {
        if counted(&serving, "wide", "resp").0 > 0 {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let run = Run::from(child.wait_with_output().unwrap()).ok();
    let report = run.json();
    assert_eq!(report["interrupted"], true);
    assert_eq!(pair(&report), counted(&serving, "wide", "resp"));
}

#[test]
fn a_server_that_goes_away() {
    let mut serving = serve();
    let place = Place::new();
    let child = start(&place, &serving.url("http"), &["--duration", "3s"]);
    serving.until("it is loaded", |serving| counted(serving, "wide", "http").0 > 0);
    serving.signal(Signal::KILL);
    serving.ended();
    let run = Run::from(child.wait_with_output().unwrap()).ok();
    let report = run.json();
    assert!(report["allowed"].as_u64().unwrap() > 0, "{report}");
    assert!(report["errors"].as_u64().unwrap() > 0, "{report}");
    let why = report["first_error"].as_str().unwrap();
    assert!(why.contains("closed the connection") || why.contains("cannot be reached"), "{why}");
}

#[test]
fn a_stall_is_not_hidden_by_asking_less() {
    let mut serving = serve();
    let place = Place::new();
    let child = start(&place, &serving.url("http"), &["--rate", "200", "--duration", "3s"]);
    serving.until("it is loaded", |serving| counted(serving, "wide", "http").0 > 20);
    serving.signal(Signal::STOP);
    sleep(Duration::from_millis(600));
    serving.signal(Signal::CONT);
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let report = run.json();
    let is_slow = |bar: &&serde_json::Value| bar["up_to_us"].as_u64().unwrap() > 100_000;
    let slow = report["histogram"].as_array().unwrap().iter().filter(is_slow);
    let slow: u64 = slow.map(|bar| bar["count"].as_u64().unwrap()).sum();
    // About a hundred were due meanwhile, and only eight connections were there to wait.
    assert!(slow > 30, "{report}");
}

#[test]
fn on_a_terminal_it_shows_how_it_goes() {
    let serving = serve();
    let url = serving.url("http");
    for (environment, is_coloured) in [(&[][..], true), (&[("NO_COLOR", "1")], false)] {
        let arguments = ["bench", &*url, "--policy", "p", "--duration", "1s", "--keys", "1"];
        let mut terminal = Terminal::run(Place::new(), &arguments, environment);
        terminal.until("it goes on", |screen| screen.contains("requests/s, "));
        assert_eq!(terminal.ended(), Some(0));
        terminal.until("it reports", |screen| screen.contains("latency   p50 "));
        let (raw, screen) = (terminal.raw(), terminal.screen());
        assert!(screen.contains("latency   p50 ") && !screen.contains("requests/s, "), "{screen}");
        assert_eq!(raw.contains("\u{1b}[32m"), is_coloured, "{raw:?}");
    }
}
