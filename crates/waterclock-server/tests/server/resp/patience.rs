//! Clients that take their time.

use std::thread::sleep;
use std::time::Duration;

use waterclock_server::{Patience, Timing};

use super::client::{Value, command};
use super::ground::{Ground, POLICIES};
use crate::at_work::hurried;

const MS: Duration = Duration::from_millis(1);

fn impatient(idle: Duration, command: Duration) -> Ground {
    let patience = Patience { idle, command, ..Patience::default() };
    Ground::with(POLICIES, Timing { patience, ..hurried() })
}

#[test]
fn idle_connections_are_closed() {
    let ground = impatient(3_000 * MS, 60_000 * MS);
    let mut client = ground.client();
    // A connection with some traffic may stay.
    for _ in 0..24 {
        sleep(150 * MS);
        assert_eq!(client.ask(&["PING"]), Value::Simple("PONG".to_owned()));
    }
    assert_eq!(client.rest(), "");
}

#[test]
fn half_a_command_must_become_a_whole_one() {
    let ground = impatient(60_000 * MS, 300 * MS);
    let mut client = ground.client();
    client.send(b"PING\r\n*1\r\n$4\r\nPI");
    assert_eq!(client.rest(), "+PONG\r\n");

    // One byte now and then is no excuse.
    let mut client = ground.client();
    let long = command(&["ECHO", &"x".repeat(1_000)]);
    let mut sent = 0;
    for byte in long.chunks(1) {
        if client.try_send(byte).is_err() {
            break;
        }
        sent += 1;
        sleep(10 * MS);
    }
    assert!(sent < 500, "{sent} bytes of half a command were taken");
    assert_eq!(client.rest(), "");

    // Between commands there is time.
    let mut client = ground.client();
    assert_eq!(client.ask(&["PING"]), Value::Simple("PONG".to_owned()));
    sleep(500 * MS);
    assert_eq!(client.ask(&["PING"]), Value::Simple("PONG".to_owned()));
}

#[test]
fn a_client_that_does_not_read_is_not_read_and_then_disconnected() {
    let ground = impatient(500 * MS, 60_000 * MS);
    let mut client = ground.client();
    let echo = command(&["ECHO", &"x".repeat(60_000)]);
    let mut taken = 0;
    // The server stops reading when its replies are not taken, so this cannot go on for ever.
    while client.try_send(&echo).is_ok() {
        taken += echo.len();
        assert!(taken < 200 << 20, "the server takes everything");
    }
    // Another client is served meanwhile.
    assert_eq!(ground.client().ask(&["PING"]), Value::Simple("PONG".to_owned()));
    sleep(1_000 * MS);
    client.rest_ignored();
}

#[test]
fn a_client_that_reads_late_gets_every_reply() {
    let ground = impatient(10_000 * MS, 10_000 * MS);
    let mut client = ground.client();
    let text = "y".repeat(50_000);
    let echo = command(&["ECHO", &text]);
    let mut writer = client.stream().try_clone().unwrap();
    let all = std::thread::spawn(move || {
        use std::io::Write;
        (0..400).for_each(|_| writer.write_all(&echo).unwrap());
    });
    sleep(300 * MS);
    for _ in 0..400 {
        assert_eq!(client.read(), Value::bulk(&text));
    }
    all.join().unwrap();
}
