//! Input that no sane client sends.

use super::client::Value;
use super::ground::Ground;

fn reply_to(ground: &Ground, bytes: &[u8]) -> String {
    let mut client = ground.client();
    client.send(bytes);
    client.rest()
}

#[test]
fn protocol_errors_are_said_once_and_end_the_connection() {
    let ground = Ground::start();
    for (bytes, text) in [
        (&b"*1000000000\r\n"[..], "invalid multibulk length"),
        (b"*99999999999999999999999\r\n", "invalid multibulk length"),
        (b"*99999999999999999999999999999999999999999999", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*1\rx", "invalid multibulk length"),
        (b"*1\r\n$99999999999\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$-9223372036854775808\r\n", "invalid bulk length"),
        (b"*1\r\n$4 \r\nPING\r\n", "invalid bulk length"),
        (b"*1\r\n:4\r\n", "expected '$', got ':'"),
        (b"*1\r\n\n", "expected '$', got '\\n'"),
        (b"*1\r\n$4\r\nPINGxx", "expected a line end after an argument"),
        (b"ECHO \"x\r\n", "unbalanced quotes in request"),
        (b"ECHO 'x'y\r\n", "unbalanced quotes in request"),
    ] {
        let shown = String::from_utf8_lossy(bytes);
        let expected = format!("-ERR Protocol error: {text}\r\n");
        assert_eq!(reply_to(&ground, bytes), expected, "{shown}");
        // Commands before it are answered, those after it are not.
        let among = [b"PING\r\n", bytes, b"\r\nPING\r\nPING\r\n"].concat();
        let replies = reply_to(&ground, &among);
        assert!(replies.starts_with("+PONG\r\n-ERR Protocol error: "), "{shown}: {replies}");
        assert_eq!(replies.matches('\n').count(), 2, "{shown}: {replies}");
    }
}

#[test]
fn arrays_of_nothing_ask_for_nothing() {
    let (_ground, mut client) = Ground::with_client();
    client.send(b"*0\r\n*-1\r\n*-1000000000\r\n\r\n\n  \r\nPING\r\n");
    assert_eq!(client.read(), Value::Simple("PONG".to_owned()));
    // An empty name is a name.
    client.send(b"*1\r\n$0\r\n\r\n");
    assert!(matches!(client.read(), Value::Error(text) if text.contains("unknown command ''")));
}

#[test]
fn http_is_not_answered() {
    let ground = Ground::start();
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\nRL.RESET login k\r\n",
        b"POST /x\r\n",
        b"Host: x\r\nPING\r\n",
        b"PUT /v1 HTTP/1.0\n\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"User-Agent: x\r\nPING\r\n",
    ] {
        assert_eq!(reply_to(&ground, bytes), "", "{}", String::from_utf8_lossy(bytes));
    }
    // The same words as a command are just unknown.
    let reply = reply_to(&ground, b"*1\r\n$4\r\nHEAD\r\nQUIT\r\n");
    assert!(reply.starts_with("-ERR unknown command 'HEAD'"), "{reply}");
}

#[test]
fn a_line_without_end_ends_the_connection() {
    let (_ground, mut client) = Ground::with_client();
    // The server may hang up half way.
    _ = client.try_send(&vec![b'x'; 70_000]);
    assert_eq!(client.rest(), "-ERR Protocol error: too big request\r\n");
}

#[test]
fn garbage_harms_no_other_client() {
    let ground = Ground::start();
    let mut good = ground.client();
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..300 {
        let mut client = ground.client();
        let len = random.usize(1..2_000);
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                if random.bool() { random.u8(..) } else { *random.choice(b"*$\r\n0123 ").unwrap() }
            })
            .collect();
        _ = client.try_send(&bytes);
        if round % 50 == 0 {
            assert_eq!(good.numbers("CL.THROTTLE k 1000 1 60")[0], 0);
        }
    }
    assert_eq!(good.ask(&["PING"]), Value::Simple("PONG".to_owned()));
}
