//! How connections end when the server stops, and what happens when it has too much to do.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use waterclock_server::observe::Face;
use waterclock_server::{Phase, Timing};

use super::client::{Client, Value, command};
use super::ground::{Ground, POLICIES};
use crate::at_work::hurried;

#[test]
fn connections_end_with_the_command_they_are_at() {
    let timing = Timing { lame_duck: Duration::from_secs(3), ..hurried() };
    let ground = Ground::with(POLICIES, timing);
    let (mut idle, mut busy) = (ground.client(), ground.client());
    assert_eq!(idle.ask(&["PING"]), Value::Simple("PONG".to_owned()));
    busy.send(b"PING\r\n*2\r\n$4\r\nECHO\r\n$2\r\n");
    assert_eq!(busy.read(), Value::Simple("PONG".to_owned()));
    let phase = ground.server.phase();
    let stopping = ground.stop();
    assert_eq!(idle.ask(&["PING"]), Value::Simple("PONG".to_owned()), "a lame duck still serves");
    while *phase.borrow() < Phase::Draining {
        sleep(Duration::from_millis(10));
    }
    assert_eq!(idle.rest(), "");
    busy.send(b"hi\r\n");
    assert_eq!(busy.rest(), "$2\r\nhi\r\n");
    stopping.join().unwrap();
}

#[test]
fn overload_is_said_and_is_no_refusal() {
    let (ground, mut client) = Ground::with_client();
    let mut permits = Vec::new();
    while let Some(permit) = ground.server.admit(Face::Resp) {
        permits.push(permit);
    }
    for line in ["RL.CHECK login k", "CL.THROTTLE k 1 1 60", "RL.PEEK login k", "DEL k"] {
        assert!(client.error(line).starts_with("BUSY "), "{line}");
    }
    assert_eq!(client.ask(&["PING"]), Value::Simple("PONG".to_owned()));
    drop(permits);
    assert_eq!(client.numbers("RL.CHECK login k")[..3], [1, 5, 4]);
}

/// Writes commands without a pause and counts replies, until the server closes.
fn busy(address: SocketAddr, number: usize) -> thread::JoinHandle<u64> {
    let client = Client::connect(address);
    let mut writer = client.stream().try_clone().unwrap();
    let write = thread::spawn(move || {
        let commands = command(&["RL.CHECK", "busy", &format!("client {number}")]).repeat(200);
        while writer.write_all(&commands).is_ok() {}
    });
    thread::spawn(move || {
        let mut stream = client.stream();
        let (mut bytes, mut replies) = ([0; 65_536], 0);
        loop {
            match stream.read(&mut bytes).expect("no reset: replies may be lost by one") {
                0 => break,
                len => replies += bytes[..len].iter().filter(|byte| **byte == b'*').count(),
            }
        }
        stream.shutdown(std::net::Shutdown::Both).unwrap_or_default();
        write.join().unwrap();
        replies as u64
    })
}

/// Such clients never leave the quiet in which connections are closed.
#[test]
#[expect(clippy::disallowed_methods, reason = "how long it takes to stop is what is tested")]
fn busy_clients_are_closed_in_time_and_lose_no_reply() {
    let timing = Timing::default();
    assert!(timing.lame_duck + timing.drain < Duration::from_secs(5));
    let ground = Ground::with("[policies.busy]\nlimits = [\"1000/s\"]\n", timing);
    let clients: Vec<_> = (0..6).map(|number| busy(ground.address, number)).collect();
    let server = Arc::clone(&ground.server);
    let decided = || -> u64 {
        let text = server.metrics_text();
        let lines = text
            .lines()
            .filter(|line| line.starts_with("waterclock_decisions_total{policy=\"busy\""));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    while decided() < 100_000 {
        sleep(Duration::from_millis(10));
    }
    let started = Instant::now();
    ground.stop().join().unwrap();
    let took = started.elapsed();
    let replies: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    println!("{replies} commands were answered, and stopping took {took:?}");
    assert_eq!(replies, decided(), "every command that was decided has a reply");
    assert!(took < Duration::from_secs(9), "{took:?}");
}
