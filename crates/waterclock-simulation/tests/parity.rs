//! The simulated Redis says what a real one says to the same script calls.

use redis::Value;
use waterclock_conformance::real::RedisServer;
use waterclock_simulation::keyspace::Keyspace;
use waterclock_simulation::lua;
use waterclock_simulation::plan::Plan;
use waterclock_simulation::plant::Plant;
use waterclock_simulation::resp::Reply;
use waterclock_simulation::run::run;

/// Script calls of a history are made again, in order, at the instants that the simulated server had.
#[test]
fn scripts_reply_as_a_real_server_does() {
    let server = RedisServer::start();
    let mut real = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut compared = 0;
    for seed in 0..200 {
        redis::cmd("FLUSHALL").exec(&mut real).unwrap();
        let mut plan = Plan::of(seed);
        // The faults are those of one server.
        plan.faults.clear();
        let history = run(&plan, Plant::None);
        let mut keyspaces = vec![Keyspace::default(); history.executed.len()];
        for (keyspace, executed) in keyspaces.iter_mut().zip(&history.executed) {
            for call in executed {
                // These ask for the time themselves.
                if !call.source.contains("local now, net = tonumber(ARGV[1])") {
                    continue;
                }
                let mut args = call.args.clone();
                args[0] = call.now_us.to_string().into_bytes();
                args[1] = b"3600000".to_vec();
                // What has expired in virtual time has not in real time.
                for key in &call.keys {
                    if keyspace.call(call.now_us, &[b"GET".to_vec(), key.clone()]) == Ok(Reply::Nil)
                    {
                        let left: i64 = redis::cmd("PTTL").arg(key).query(&mut real).unwrap();
                        assert!(
                            left < 60_000,
                            "seed {seed}: a record that lasts {left} ms is gone"
                        );
                        redis::cmd("DEL").arg(key).exec(&mut real).unwrap();
                    }
                }
                let mut cmd = redis::cmd("EVAL");
                cmd.arg(&*call.source).arg(call.keys.len()).arg(&call.keys).arg(&args);
                let expected = real.send_packed_command_or_error(&cmd);
                let reply = lua::run(&call.source, keyspace, call.now_us, &call.keys, &args);
                assert!(same(&reply, &expected), "seed {seed}: {reply:?}, and really {expected:?}");
                for key in &call.keys {
                    let stored: Value = redis::cmd("DUMP").arg(key).query(&mut real).unwrap();
                    let kept = keyspace.call(call.now_us, &[b"GET".to_vec(), key.clone()]);
                    if let (Ok(Reply::Bulk(kept)), Value::BulkString(_)) = (&kept, &stored) {
                        let text: Vec<u8> = redis::cmd("GET").arg(key).query(&mut real).unwrap();
                        assert_eq!(&text, kept, "seed {seed}");
                    } else {
                        assert!(
                            stored == Value::Nil,
                            "seed {seed}: {kept:?}, and really {stored:?}"
                        );
                    }
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 2_000, "{compared}");
}

trait OrError {
    fn send_packed_command_or_error(&mut self, cmd: &redis::Cmd) -> Result<Value, String>;
}

impl OrError for redis::Connection {
    fn send_packed_command_or_error(&mut self, cmd: &redis::Cmd) -> Result<Value, String> {
        cmd.query(self).map_err(|error| error.to_string())
    }
}

fn same(reply: &Reply, expected: &Result<Value, String>) -> bool {
    match (reply, expected) {
        (Reply::Error(_), Err(_)) => true,
        (_, Err(_)) => false,
        (_, Ok(value)) => same_value(reply, value),
    }
}

fn same_value(reply: &Reply, value: &Value) -> bool {
    match (reply, value) {
        (Reply::Int(one), Value::Int(other)) => one == other,
        (Reply::Bulk(one), Value::BulkString(other)) => one == other,
        (Reply::Nil, Value::Nil) | (Reply::Status(_), Value::Okay | Value::SimpleString(_)) => true,
        (Reply::Error(_), Value::ServerError(_)) => true,
        (Reply::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same_value(a, b))
        }
        _ => false,
    }
}
