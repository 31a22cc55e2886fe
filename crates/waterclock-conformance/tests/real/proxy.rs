//! A bad network.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use waterclock_conformance::real::{Connection, Proxy, RedisServer, Reply};

const SHORT: Duration = Duration::from_millis(200);

fn ping(connection: &mut Connection) -> io::Result<Reply> {
    connection.command(&["PING"])
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn start() -> (RedisServer, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    (server, proxy)
}

#[test]
fn passes_and_counts() {
    let (_server, proxy) = start();
    let mut connection = Connection::open(proxy.port()).unwrap();
    for _ in 0..3 {
        assert_eq!(ping(&mut connection).unwrap().as_text(), "PONG");
    }
    let large = "x".repeat(1 << 20);
    assert_eq!(connection.command(&["ECHO", &large]).unwrap().as_text(), large);
    assert_eq!(proxy.connections(), 1);
    assert!(proxy.round_trips() >= 4);
    assert!(proxy.request_bytes() > 1 << 20);
    assert_eq!(proxy.url(), format!("redis://127.0.0.1:{}", proxy.port()));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a delay is a matter of real time")]
fn delays_replies() {
    let (_server, proxy) = start();
    let mut connection = Connection::open(proxy.port()).unwrap();
    proxy.delay(SHORT);
    let start = Instant::now();
    assert_eq!(ping(&mut connection).unwrap().as_text(), "PONG");
    assert!(start.elapsed() >= SHORT);
    // A long delay does not keep the proxy from ending.
    proxy.delay(Duration::from_secs(3600));
    connection.send(&["PING"]).unwrap();
    drop(proxy);
    assert!(connection.receive().is_err());
}

/// Nothing gets through, in either direction, and nothing is closed; but only for clients at that address.
#[test]
fn isolates_from_one_address() {
    let (server, proxy) = start();
    let mut connection = Connection::open_within(proxy.port(), SHORT).unwrap();
    assert_eq!(ping(&mut connection).unwrap().as_text(), "PONG");
    proxy.isolate_from([127, 0, 0, 2]);
    assert_eq!(ping(&mut connection).unwrap().as_text(), "PONG");
    proxy.isolate_from([127, 0, 0, 1]);
    let error = connection.command(&["SET", "key", "set"]).unwrap_err();
    assert!(is_timeout(&error), "{error}");
    let mut other = Connection::open_within(proxy.port(), SHORT).unwrap();
    assert!(is_timeout(&ping(&mut other).unwrap_err()));
    proxy.rejoin();
    assert!(server.command(&["GET", "key"]).is_nil());
    assert!(!is_timeout(&ping(&mut connection).unwrap_err()));
    let mut next = Connection::open(proxy.port()).unwrap();
    assert_eq!(ping(&mut next).unwrap().as_text(), "PONG");
}

#[test]
fn answers_garbage() {
    let (server, proxy) = start();
    proxy.garbage(*b"HTTP/1.1 400 Bad Request\r\n");
    let mut connection = Connection::open(proxy.port()).unwrap();
    let error = connection.command(&["SET", "key", "set"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert_eq!(server.command(&["GET", "key"]).as_text(), "set");
}

#[test]
fn truncates_replies() {
    let (_server, proxy) = start();
    proxy.truncate();
    let mut connection = Connection::open(proxy.port()).unwrap();
    assert_eq!(ping(&mut connection).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    proxy.pass();
    assert!(ping(&mut connection).is_err());
    assert!(ping(&mut Connection::open(proxy.port()).unwrap()).is_ok());
}

#[test]
fn swallows_replies_of_what_happened() {
    let (server, proxy) = start();
    let mut connection = Connection::open_within(proxy.port(), SHORT).unwrap();
    ping(&mut connection).unwrap();
    proxy.swallow_replies();
    assert!(is_timeout(&connection.command(&["INCR", "key"]).unwrap_err()));
    assert_eq!(server.command(&["GET", "key"]).as_text(), "1");
    // The connection is lost for good; a new one is not.
    proxy.pass();
    assert!(is_timeout(&ping(&mut connection).unwrap_err()));
    assert!(ping(&mut Connection::open(proxy.port()).unwrap()).is_ok());
}

#[test]
fn refuses_new_connections_and_drops_old_ones() {
    let (_server, proxy) = start();
    let mut old = Connection::open(proxy.port()).unwrap();
    ping(&mut old).unwrap();
    proxy.refuse();
    assert!(Connection::open(proxy.port()).and_then(|mut new| ping(&mut new)).is_err());
    assert!(ping(&mut old).is_ok());
    proxy.drop_all();
    assert!(ping(&mut old).is_err());
    proxy.pass();
    assert!(Connection::open(proxy.port()).and_then(|mut new| ping(&mut new)).is_ok());
    assert_eq!(proxy.connections(), 3);
}

#[test]
fn closes_when_there_is_no_redis() {
    let (server, proxy) = start();
    server.kill();
    let mut connection = Connection::open(proxy.port()).unwrap();
    assert!(ping(&mut connection).is_err());
}
