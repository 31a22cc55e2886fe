//! A single Redis.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use waterclock_conformance::real::{Connection, Program, RedisServer, Reply};

#[test]
fn answers_on_a_port_of_its_own() {
    let (one, other) = (RedisServer::start(), RedisServer::start());
    assert_ne!(one.port(), other.port());
    assert_eq!(one.url(), format!("redis://127.0.0.1:{}", one.port()));
    assert!(one.command(&["SET", "key", "1"]).is_ok());
    assert_eq!(one.command(&["INCRBY", "key", "41"]).as_int(), 42);
    assert_eq!(one.command(&["GET", "key"]).as_text(), "42");
    assert!(other.command(&["GET", "key"]).is_nil());
}

#[test]
fn runs_other_programs() {
    let valkey = RedisServer::start_as(Program::Valkey, &[]);
    assert_eq!(valkey.info("server", "server_name").as_deref(), Some("valkey"));
    let old = RedisServer::start_as(Program::Redis6, &[]);
    assert!(old.info("server", "redis_version").unwrap().starts_with("6."));
}

#[test]
fn speaks_every_kind_of_reply() {
    let server = RedisServer::start();
    let script = "return {1, 'two', false, {redis.status_reply('S'), redis.error_reply('ERR E')}}";
    let reply = server.command(&["EVAL", script, "0"]);
    let inner = Reply::Array(vec![Reply::Simple("S".into()), Reply::Error("ERR E".into())]);
    let two = Reply::Bulk(b"two".into());
    assert_eq!(reply, Reply::Array(vec![Reply::Int(1), two, Reply::Nil, inner]));
    let bytes: &[u8] = &[0, b'\r', b'\n', 255];
    server.command(&[b"SET", b"bytes".as_slice(), bytes]).unwrap();
    assert_eq!(server.command(&["GET", "bytes"]), Reply::Bulk(bytes.into()));
}

#[test]
fn takes_settings() {
    let server = RedisServer::start_with(&[
        ("maxmemory", "3mb"),
        ("client-output-buffer-limit", "normal 1mb 0 0"),
        ("requirepass", "sesame"),
        ("enable-debug-command", "yes"),
    ]);
    assert_eq!(server.command(&["CONFIG", "GET", "maxmemory"]).as_array()[1].as_int(), 3 << 20);
    assert!(server.command(&["DEBUG", "SLEEP", "0"]).is_ok());
    let mut stranger = Connection::open(server.port()).unwrap();
    let refusal = stranger.command(&["PING"]).unwrap();
    assert!(refusal.as_error().unwrap().starts_with("NOAUTH"), "{refusal:?}");
}

#[test]
#[should_panic(expected = "redis-server does not start; its log:")]
fn says_why_it_does_not_start() {
    RedisServer::start_with(&[("no-such-setting", "1")]);
}

#[test]
fn pauses_and_resumes() {
    let server = RedisServer::start();
    server.command(&["SET", "key", "kept"]).unwrap();
    server.pause();
    assert!(!server.is_up());
    let mut connection =
        Connection::open_within(server.port(), Duration::from_millis(200)).unwrap();
    let error = connection.command(&["PING"]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    server.resume();
    assert!(server.is_up());
    assert_eq!(server.command(&["GET", "key"]).as_text(), "kept");
}

#[test]
fn is_killed_and_restarted_on_its_port() {
    let server = RedisServer::start();
    let (port, pid) = (server.port(), server.pid());
    server.command(&["SET", "key", "lost"]).unwrap();
    server.pause();
    server.kill();
    assert!(!server.is_up());
    assert_eq!(server.try_command(&["PING"]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    server.restart();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert!(server.command(&["GET", "key"]).is_nil());
}

#[test]
fn leaves_nothing_behind() {
    let server = RedisServer::start();
    let dir = server.command(&["CONFIG", "GET", "dir"]).as_array()[1].as_text();
    let port = server.port();
    assert!(Path::new(&dir).exists());
    server.pause();
    drop(server);
    assert!(!Path::new(&dir).exists());
    assert_eq!(Connection::open(port).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}
