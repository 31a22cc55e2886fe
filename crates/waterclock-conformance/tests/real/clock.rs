//! A server whose clock can be moved.

use std::time::{Duration, SystemTime};

use waterclock_conformance::real::{RedisServer, Reply};

const HOUR: Duration = Duration::from_secs(3600);
const HOUR_MICROS: i64 = 3_600_000_000;

/// How far the time in a reply is ahead of the system's, in microseconds.
#[expect(clippy::disallowed_methods, reason = "the system's clock is what to compare with")]
fn ahead(time: &Reply) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let [seconds, micros] = time.as_array() else { panic!("not a time: {time:?}") };
    seconds.as_int() * 1_000_000 + micros.as_int() - i64::try_from(now.as_micros()).unwrap()
}

/// Asserts how far the server's clock is ahead, for clients and for scripts. A reply takes time to
/// arrive, so it is a little behind; five seconds is more than any takes.
fn assert_ahead(server: &RedisServer, expected: i64) {
    let script = server.command(&["EVAL", "return redis.call('TIME')", "0"]);
    for time in [server.command(&["TIME"]), script] {
        let late = expected - ahead(&time);
        assert!((0..5_000_000).contains(&late), "{late} µs off");
    }
}

#[test]
fn moves_forward_and_back() {
    let server = RedisServer::start_with_clock();
    assert_ahead(&server, 0);
    server.step_clock(HOUR, true);
    assert_ahead(&server, HOUR_MICROS);
    server.step_clock(2 * HOUR, false);
    assert_ahead(&server, -HOUR_MICROS);
    server.set_clock_offset(123_456_789);
    assert_ahead(&server, 123_456_789);
    server.set_clock_offset(-999_999);
    assert_ahead(&server, -999_999);
    server.restart();
    assert_ahead(&server, -999_999);
}

#[test]
fn decides_what_expires() {
    let server = RedisServer::start_with_clock();
    server.command(&["SET", "key", "value", "EX", "1800"]).unwrap();
    server.step_clock(HOUR, false);
    assert!(server.command(&["TTL", "key"]).as_int() > 3600);
    server.step_clock(2 * HOUR, true);
    assert!(server.command(&["GET", "key"]).is_nil());
}
