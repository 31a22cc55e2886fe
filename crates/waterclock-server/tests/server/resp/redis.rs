//! The same face on a store elsewhere.

use waterclock_conformance::real::RedisServer;

use super::client::{Value, command};
use super::ground::{Ground, POLICIES};
use crate::at_work::hurried;

fn on(redis: &RedisServer, more: &str) -> Ground {
    let config = format!("[store]\nurl = \"{}\"\ndeadline = \"2s\"\n{POLICIES}{more}", redis.url());
    Ground::with(&config, hurried())
}

#[test]
fn a_turn_is_asked_at_once_and_answered_in_order() {
    let redis = RedisServer::start();
    let ground = on(&redis, "");
    let mut client = ground.client();
    let mut bytes = Vec::new();
    for n in 0..1_000 {
        bytes.extend(command(&["CL.THROTTLE", &format!("k{n}"), &n.to_string(), "1", "60"]));
        bytes.extend(command(&["ECHO", &n.to_string()]));
        bytes.extend(command(&["RL.CHECK", "login", &format!("k{n}")]));
        if n % 100 == 0 {
            bytes.extend(command(&["RL.RESET", "login", &format!("k{n}")]));
        }
    }
    let mut writer = client.stream().try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        use std::io::Write;
        writer.write_all(&bytes).unwrap();
    });
    for n in 0..1_000 {
        let Value::Array(numbers) = client.read() else { panic!("numbers") };
        assert_eq!(numbers[..3], [0, n + 1, n].map(Value::Integer));
        assert_eq!(client.read(), Value::bulk(&n.to_string()));
        let Value::Array(numbers) = client.read() else { panic!("numbers") };
        assert_eq!(numbers[..3], [1, 5, 4].map(Value::Integer));
        if n % 100 == 0 {
            let Value::Array(numbers) = client.read() else { panic!("numbers") };
            assert_eq!(numbers[..3], [1, 5, 5].map(Value::Integer));
        }
    }
    sender.join().unwrap();
    assert_eq!(client.numbers("CL.THROTTLE k0 0 1 60")[0], 1);
    assert_eq!(client.numbers("CL.THROTTLE k9 9 1 60 -1")[..3], [0, 10, 10]);
    assert_eq!(client.ask(&["DEL", "k0", "k999"]), Value::Integer(2));
    assert_eq!(client.numbers("CL.THROTTLE k0 0 1 60"), [0, 1, 0, -1, 60]);
}

#[test]
fn a_key_has_one_state_whatever_numbers_it_is_asked_with() {
    let redis = RedisServer::start();
    let ground = on(&redis, "");
    let mut client = ground.client();
    assert_eq!(client.numbers("CL.THROTTLE one 59 1 60 60"), [0, 60, 0, -1, 3_600]);
    assert_eq!(client.numbers("CL.THROTTLE one 7199 7 7 0"), [0, 7_200, 3_600, -1, 3_600]);
    assert_eq!(client.numbers("CL.THROTTLE one 9 1 360 1")[..3], [1, 10, 0]);
    assert_eq!(client.ask(&["DEL", "one", "two"]), Value::Integer(1));
    assert_eq!(client.numbers("CL.THROTTLE one 9 1 360 1"), [0, 10, 9, -1, 360]);
}

#[test]
fn a_store_that_fails_is_no_refusal() {
    let redis = RedisServer::start();
    let ground = on(&redis, "\n[policies.strict]\non_store_error = \"deny\"\nlimits = [\"5/s\"]\n");
    let mut client = ground.client();
    assert_eq!(client.numbers("RL.CHECK strict k")[0], 1);
    redis.kill();
    let text = client.error("RL.CHECK strict k");
    assert!(text.starts_with("UNAVAILABLE "), "{text}");
    assert_eq!(client.ask(&["PING"]), Value::Simple("PONG".to_owned()));
}

/// Names with slashes and dots, those that the server had itself before, and a tier that is not known.
#[test]
fn names_and_default_tiers() {
    let redis = RedisServer::start();
    let names = ["api/notes/create", "API:v2.1", "cl.throttle", "held.unlimited"];
    let policy = |name: &&str| {
        format!(
            "[policies.\"{name}\"]\ntiers = {{ free = {{ factor = 2 }} }}\ndefault_tier = \"free\"\n\
             limits = [\"4/h\"]\n"
        )
    };
    let more: String = names.iter().map(policy).collect();
    let (ground, other) = (on(&redis, &more), on(&redis, &more));
    let (mut client, mut elsewhere) = (ground.client(), other.client());
    assert_eq!(client.numbers("CL.THROTTLE k 4 1 3600")[..3], [0, 5, 4]);
    for name in names {
        assert_eq!(client.numbers(&format!("RL.CHECK {name} k"))[..3], [1, 4, 3], "{name}");
        let gold = elsewhere.numbers(&format!("RL.CHECK {name} k TIER gold"));
        assert_eq!(gold[..3], [1, 2, 0], "{name}");
    }
    assert_eq!(elsewhere.numbers("CL.THROTTLE k 4 1 3600")[..3], [0, 5, 3]);
}
