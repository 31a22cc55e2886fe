//! How connections end when the server stops, and what happens when it has too much to do.

use std::thread::sleep;
use std::time::Duration;

use waterclock_server::observe::Face;
use waterclock_server::{Phase, Timing};

use super::client::Value;
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
