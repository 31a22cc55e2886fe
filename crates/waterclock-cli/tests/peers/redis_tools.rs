//! redis-cli and redis-benchmark, as people type them.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::installed::program;
use crate::script;
use crate::server::Server;

fn on_port(name: &str, server: &Server) -> Command {
    let mut command = program(name);
    command.args(["-p", &server.resp.to_string()]);
    command
}

#[test]
fn redis_cli_asks() {
    let server = Server::start();
    let ask = |words: &[&str]| script::run(on_port("redis-cli", &server).args(words));
    assert_eq!(ask(&["PING"]), "PONG\n");
    assert_eq!(ask(&["CL.THROTTLE", "alice", "4", "1", "86400", "5"]), "0\n5\n0\n-1\n432000\n");
    assert!(ask(&["CL.THROTTLE", "alice", "4", "1", "86400"]).starts_with("1\n5\n0\n"));
    assert_eq!(ask(&["-3", "RL.CHECK", "api", "alice", "100"]), "1\n100\n0\n0\n360000\n100\n");
    assert!(ask(&["-3", "HELLO", "3"]).contains("proto 3"));
    assert!(ask(&["INFO"]).contains("redis_version:"));
    assert_eq!(ask(&["-n", "0", "ECHO", "hi"]), "hi\n");
    server.stop();
}

/// Commands that are typed one after another share a connection, and a mistake does not end it.
#[test]
fn redis_cli_holds_a_session() {
    let server = Server::start();
    for protocol in ["-2", "-3"] {
        let mut command = on_port("redis-cli", &server);
        command.arg(protocol).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("redis-cli starts");
        let typed = format!(
            "RL.CHECK api bob{protocol}\nRL.PEEK api bob{protocol}\nGET x\nRL.CHECK nobody bob\nPING\n"
        );
        child.stdin.take().expect("it is ours").write_all(typed.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends with its input");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines[..3], ["1", "100", "99"], "{said}");
        assert_eq!(lines[6..9], ["1", "100", "99"], "{said}");
        assert!(lines[12].starts_with("ERR unknown command"), "{said}");
        assert!(lines[13].contains("nobody"), "{said}");
        assert_eq!(lines[14..], ["PONG"], "{said}");
    }
    server.stop();
}

#[test]
fn redis_benchmark_finishes() {
    let server = Server::start();
    let throttle = ["CL.THROTTLE", "bench", "1000000", "1000000", "60"];
    for what in [&["-t", "ping_inline,ping_mbulk"][..], &throttle] {
        let mut command = on_port("redis-benchmark", &server);
        command.args(["-q", "-n", "20000", "-P", "16"]).args(what);
        let said = script::run(&mut command);
        assert!(said.contains("requests per second"), "{said}");
        assert!(!said.to_ascii_lowercase().contains("error"), "{said}");
    }
    // Each of them was a decision.
    let metrics = server.get("/metrics").body;
    let decided: u64 = metrics
        .lines()
        .filter(|line| line.starts_with("waterclock_decisions_total{") && line.contains("resp"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    assert!(decided >= 20_000, "{decided} decisions are counted: {metrics}");
    server.stop();
}
