//! A trace through real Redis servers: the same bytes as in memory, and nothing left behind.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command};
use std::time::Duration;

use fastrand::Rng;
use waterclock_conformance::real::{Cluster, RedisServer, Sentinel};

use crate::random_trace::{CONFIG, KINDS, trace};
use crate::support::{Place, Run};

/// Events of one key each, all charged.
fn events(count: usize) -> String {
    (0..count).map(|n| format!("{{\"t_us\":{n},\"key\":\"k{n}\"}}\n")).collect()
}

fn jsonl(place: &Place, policy: &str, store: &str, trace: &str) -> Run {
    let arguments = ["replay", "--policy", policy, "--format", "jsonl", "--store", store];
    place.run_with_input(&arguments, trace)
}

#[track_caller]
fn assert_empty(server: &RedisServer) {
    assert_eq!(server.command(&["DBSIZE"]).as_int(), 0, "something was left behind");
}

/// Every kind of policy decides the same there as here.
#[track_caller]
fn same_bytes(store: &str, events: usize, after_each: impl Fn()) {
    let place = Place::with_config(CONFIG);
    for (seed, kind) in KINDS.iter().enumerate() {
        let trace = trace(kind, events, &mut Rng::with_seed(seed as u64));
        for format in ["jsonl", "summary"] {
            let arguments = ["replay", "--policy", kind.policy, "--format", format];
            let here = place.run_with_input(&arguments, &trace);
            let there =
                place.run_with_input(&[&arguments[..], &["--store", store]].concat(), &trace);
            assert_eq!((here.code, here.stderr.as_str()), (Some(0), ""), "{}", kind.policy);
            assert_eq!((there.code, there.stderr.as_str()), (Some(0), ""), "{}", kind.policy);
            let lines = here.stdout.lines().zip(there.stdout.lines());
            for (number, (here, there)) in lines.enumerate() {
                assert_eq!(there, here, "{}, line {}", kind.policy, number + 1);
            }
            assert_eq!(there.stdout.len(), here.stdout.len(), "{}", kind.policy);
            after_each();
        }
    }
}

#[test]
fn the_same_bytes_as_in_memory() {
    let server = RedisServer::start();
    same_bytes(&server.url(), 600, || assert_empty(&server));
}

#[test]
fn the_same_bytes_on_a_cluster() {
    let cluster = Cluster::start(3, 0);
    same_bytes(&cluster.url(), 60, || cluster.nodes().iter().for_each(assert_empty));
}

#[test]
fn the_same_bytes_behind_sentinels() {
    let service = Sentinel::start();
    same_bytes(&service.url(), 60, || assert_empty(service.primary()));
}

/// More events than may be under way at once, and every key again and again.
#[test]
fn the_order_of_a_key_is_kept() {
    let server = RedisServer::start();
    let place = Place::with_limits("\"5/s\"");
    let event = |n: u64| format!("{{\"t_us\":{},\"key\":\"{}\"}}\n", n * 500, n * n % 97);
    let trace: String = (0..20_000).map(event).collect();
    let (here, there) =
        (jsonl(&place, "p", "memory:", &trace), jsonl(&place, "p", &server.url(), &trace));
    assert!(here.stdout.contains("\"allowed\":false"));
    assert_eq!((there.code, there.stderr.as_str()), (Some(0), ""));
    assert!(there.stdout == here.stdout, "decisions depend on the order of events");
}

#[test]
fn a_bad_line_in_the_middle_leaves_nothing_behind() {
    let server = RedisServer::start();
    let place = Place::with_limits("\"5/s\"");
    let trace = events(700) + "{\"t_us\":-1}\n" + &events(5);
    let (here, there) =
        (jsonl(&place, "p", "memory:", &trace), jsonl(&place, "p", &server.url(), &trace));
    assert_eq!(there.code, Some(2));
    assert_eq!(there.stderr, "<stdin>:701:10: `t_us` must be a whole number from 0; found -1\n");
    assert_eq!((there.stdout, there.stderr), (here.stdout, here.stderr));
    assert_empty(&server);
}

/// Where there is nothing of ours to remove, or it lies scattered among a lot that is not.
#[test]
fn only_its_own_records_are_removed() {
    let server = RedisServer::start();
    let place = Place::with_config(
        "[policies.p]\nlimits = [\"5/s\"]\n[policies.none]\nlimits = [{ algorithm = \"legacy\", max = 5 }]",
    );
    let clean = |run: &Run| assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    clean(&jsonl(&place, "p", &server.url(), "{\"t_us\":0,\"op\":\"peek\"}\n"));
    clean(&jsonl(&place, "none", &server.url(), "{\"t_us\":0}\n"));
    assert_empty(&server);
    let mut connection = server.connect().unwrap();
    for n in 0..5_000 {
        let key = format!("waterclock-replay-{n}:{{key}}mark");
        assert!(connection.command(&["SET", key.as_str(), "theirs"]).unwrap().is_ok());
    }
    clean(&jsonl(&place, "p", &server.url(), &events(10)));
    assert_eq!(server.command(&["DBSIZE"]).as_int(), 5_000);
    let empty = jsonl(&place, "p", &server.url(), "");
    assert_eq!((empty.code, empty.stderr.as_str()), (Some(0), "warning: the trace is empty\n"));
}

#[test]
fn a_reader_that_has_seen_enough_leaves_nothing_behind() {
    let server = RedisServer::start();
    let place = Place::with_limits("\"5/s\"").file("trace", &events(30_000));
    let arguments = ["replay", "--format", "jsonl", "--store", &server.url(), "trace"];
    let mut child = place.command(&arguments).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("{\"t_us\":0,"), "{first}");
    Run::from(child.wait_with_output().unwrap()).ok();
    assert_empty(&server);
}

/// A replay that has decided about its first ten events and waits for more.
fn waiting(place: &Place, server: &RedisServer) -> Child {
    let arguments = ["replay", "--format", "jsonl", "--store", &server.url()];
    let mut child = place.command(&arguments).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(events(10).as_bytes()).unwrap();
    while server.command(&["DBSIZE"]).as_int() < 10 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended early");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn an_interruption_leaves_nothing_behind() {
    let server = RedisServer::start();
    let place = Place::with_limits("\"5/s\"");
    let mut child = waiting(&place, &server);
    // Its input stays open: it must not wait for that.
    let stdin = child.stdin.take();
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    let run = Run::from(child.wait_with_output().unwrap());
    drop(stdin);
    assert_eq!(run.code, Some(2));
    assert_eq!(run.stderr, "interrupted; the rest of the trace is not decided\n");
    assert_eq!(run.lines().len(), 10);
    assert_empty(&server);
}

#[test]
fn a_store_that_dies_is_said_after_what_it_decided() {
    let server = RedisServer::start();
    let place = Place::with_limits("\"5/s\"");
    let mut child = waiting(&place, &server);
    server.kill();
    child.stdin.take().unwrap().write_all(b"{\"t_us\":99}\n").unwrap();
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!((run.code, run.lines().len()), (Some(2), 10));
    let url = server.url();
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{}", run.stderr);
    assert!(lines.iter().all(|line| line.starts_with(&format!("{url}: the store failed ("))));
    assert!(lines[1].ends_with(": expires within an hour"), "{}", lines[1]);
}

#[test]
fn a_server_that_may_drop_records_is_warned_about() {
    let server = RedisServer::start_with(&[("maxmemory-policy", "allkeys-lru")]);
    let place = Place::with_limits("\"5/s\"");
    let run = jsonl(&place, "p", &server.url(), &events(3));
    assert_eq!((run.code, run.lines().len()), (Some(0), 3));
    assert!(run.stderr.starts_with("warning: maxmemory-policy is allkeys-lru: "), "{}", run.stderr);
}

#[test]
fn what_redis_cannot_decide_exactly_is_said() {
    let server = RedisServer::start();
    let place = Place::with_config(
        "[policies.p]\nmode = \"uniform\"\nlimits = [\"9007199254740991/s fixed-window\"]",
    );
    let run = jsonl(&place, "p", &server.url(), "{\"t_us\":0}\n");
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    let expected = "limit `fixed-window` of policy `p`: in count-refusals mode, Redis counts up to 2^51; found 9007199254740991\n";
    assert_eq!(run.stderr, expected);
}
