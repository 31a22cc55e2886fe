//! Where there is no terminal, and for machines.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{CONFIG, SHOWN, Traffic, serve};
use crate::serve::process::Serving;
use crate::support::Place;

#[test]
fn one_table() {
    let serving = serve();
    let _traffic = Traffic::start(&serving);
    let url = serving.url("http");
    for arguments in [&["top", &*url, "--once", "--interval", "300ms"][..], &["top", &url]] {
        let run = Place::new().run(arguments).ok();
        assert!(!run.stdout.contains('\u{1b}'), "{}", run.stdout);
        let row = |name: &str| {
            let line = run.stdout.lines().find(|line| line.trim_start().starts_with(name));
            let line = line.unwrap_or_else(|| panic!("{name}: {}", run.stdout));
            line.split_whitespace().map(str::to_owned).collect::<Vec<String>>()
        };
        assert!(row("wide")[1].parse::<f64>().unwrap() > 1.0, "{}", run.stdout);
        assert!(row("narrow")[2].parse::<f64>().unwrap() > 1.0, "{}", run.stdout);
        assert_eq!(row("narrow")[4], "2", "{}", run.stdout);
        run.says(&[SHOWN]);
        run.says(&["store memory: healthy"]);
    }
}

#[test]
fn lines_of_json() {
    let serving = serve();
    let (url, place) = (serving.url("http"), Place::new());
    let once = place.run(&["top", &url, "--json", "--once"]);
    assert_eq!((once.code, once.stderr.as_str(), once.stdout.lines().count()), (Some(0), "", 1));
    assert_eq!(once.json()["policies"][0]["name"], "narrow");
    let arguments = ["top", &*url, "--json", "--interval", "100ms"];
    let mut child = place.command(&arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let (first, second) = (next(), next());
    let passed = second["at_us"].as_u64().unwrap() - first["at_us"].as_u64().unwrap();
    assert!(passed >= 50_000, "{passed}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn complaints() {
    let config = format!(
        "[server]\nauth = [{{ token = \"${{MY_TOKEN}}\", roles = [\"check\"] }}, {{ token = \"${{READ}}\", roles = [\"read\"] }}]\n{}",
        CONFIG.replace("[server]\n", "")
    );
    let serving = Serving::start_with(
        Place::with_config(&config.replace("show_keys = true\n", "")),
        &["serve", "-c", "waterclock.toml"],
        &[("MY_TOKEN", "t0ken"), ("READ", "r3ad")],
    );
    let url = serving.url("http");
    let closed =
        format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let place = Place::new();
    for (arguments, token, sentence) in [
        (&[&*url][..], "", "needs a token with the role `read`"),
        (&[&*url], "t0ken", "the token lacks the role `read`"),
        (&[&*closed], "", "cannot be reached: Connection refused"),
        (&[&*closed, "--json", "--once"], "", "cannot be reached: Connection refused"),
        (&["redis://127.0.0.1"], "", "only HTTP answers this"),
        (
            &[&*url, "--interval", "1ms"],
            "",
            "--interval must be from 100ms to 1h, such as 2s; found 1ms",
        ),
    ] {
        let run = place.run_with(&[("WATERCLOCK_TOKEN", token)], &[&["top"], arguments].concat());
        run.fails(sentence);
    }

    place.run_with(&[("WATERCLOCK_TOKEN", "r3ad")], &["top", &url, "--json", "--once"]).ok();
}
