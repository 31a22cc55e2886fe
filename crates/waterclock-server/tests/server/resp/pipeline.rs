//! Many commands at once, and one in many pieces.

use super::client::{Value, command};
use super::ground::Ground;

#[test]
fn ten_thousand_commands_are_answered_in_order() {
    let (_ground, mut client) = Ground::with_client();
    let mut writer = client.stream().try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        use std::io::Write;
        let mut bytes = Vec::new();
        for n in 0..10_000 {
            bytes.extend(command(&["CL.THROTTLE", "k", "9999", "1", "86400"]));
            bytes.extend(command(&["ECHO", &n.to_string()]));
            bytes.extend(command(&["RL.REFUND", "login", "k", "1"]));
        }
        writer.write_all(&bytes).unwrap();
    });
    for n in 0..10_000 {
        let Value::Array(numbers) = client.read() else { panic!("numbers") };
        assert_eq!(numbers[..3], [0, 10_000, 9_999 - n].map(Value::Integer));
        assert_eq!(client.read(), Value::bulk(&n.to_string()));
        assert!(matches!(client.read(), Value::Array(_)));
    }
    sender.join().unwrap();
    assert_eq!(client.numbers("CL.THROTTLE k 9999 1 86400")[0], 1);
}

#[test]
fn pieces_of_one_byte() {
    let (_ground, mut client) = Ground::with_client();
    for byte in [command(&["ECHO", "a\r\nb"]), b"RL.CHECK login k\r\n".to_vec()].concat() {
        client.send(&[byte]);
    }
    assert_eq!(client.read(), Value::bulk("a\r\nb"));
    assert!(matches!(client.read(), Value::Array(_)));
}

#[test]
fn a_client_that_stops_sending_still_gets_the_replies() {
    let (_ground, mut client) = Ground::with_client();
    client.send(&[command(&["PING"]), command(&["ECHO", "x"])].concat());
    client.stream().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.rest(), "+PONG\r\n$1\r\nx\r\n");
}

#[test]
fn parallel_connections_share_a_budget_exactly() {
    let ground = Ground::start();
    let allowed = |_| {
        let mut client = ground.client();
        let bytes = command(&["CL.THROTTLE", "shared", "999", "1", "86400"]).repeat(500);
        client.send(&bytes);
        let first = |value| match value {
            Value::Array(numbers) => numbers[0] == Value::Integer(0),
            other => panic!("{other:?}"),
        };
        (0..500).filter(|_| first(client.read())).count()
    };
    let total: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || allowed(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(total, 1_000);
}
