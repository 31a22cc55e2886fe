//! Authentication.

use std::thread::sleep;
use std::time::Duration;

use super::client::Value;
use super::ground::{Ground, POLICIES};
use crate::at_work::{AtWork, auth, hurried};

fn guarded() -> Ground {
    let auth = auth(&[("asker", "check"), ("looker", "read"), ("root", "admin")]);
    Ground::with(&format!("{auth}{POLICIES}"), hurried())
}

const NOAUTH: &str = "NOAUTH Authentication required.";

#[test]
fn strangers_may_only_authenticate() {
    let ground = guarded();
    let mut client = ground.client();
    for line in ["PING", "RL.CHECK login k", "CL.THROTTLE k 1 1 60", "DEL k", "INFO", "NOSUCH"] {
        assert_eq!(client.error(line), NOAUTH, "{line}");
    }
    assert!(client.error("HELLO 3").starts_with("NOAUTH HELLO must be called"));
    assert_eq!(client.ask(&["RESET"]), Value::Simple("RESET".to_owned()));
    assert_eq!(client.ask(&["QUIT"]), Value::ok());
}

#[test]
fn tokens_have_roles() {
    let ground = guarded();
    let mut client = ground.client();
    assert_eq!(
        client.error("AUTH wrong"),
        "WRONGPASS invalid username-password pair or user is disabled."
    );
    assert_eq!(client.error("RL.CHECK login k"), NOAUTH);
    assert_eq!(client.ask(&["AUTH", "asker"]), Value::ok());
    assert_eq!(client.numbers("RL.CHECK login k")[0], 1);
    // A wrong token does not take away what the right one gave.
    client.error("AUTH default wrong");
    assert_eq!(client.numbers("RL.CHECK login k")[0], 1);

    assert_eq!(client.ask(&["AUTH", "default", "looker"]), Value::ok());
    for line in ["RL.CHECK login k", "CL.THROTTLE k 1 1 60", "RL.REFUND login k 1", "DEL k"] {
        assert!(client.error(line).starts_with("NOPERM "), "{line}");
    }
    assert_eq!(client.numbers("RL.PEEK login k")[..3], [1, 5, 3]);
    assert!(matches!(client.ask(&["INFO"]), Value::Bulk(_)));

    assert!(client.error("RL.OVERRIDE login k GET").starts_with("NOPERM "));
    assert_eq!(client.ask(&["AUTH", "asker"]), Value::ok());
    let refused = client.error("RL.OVERRIDE login k GET");
    assert!(refused.starts_with("NOPERM ") && refused.contains("role admin"), "{refused}");

    assert_eq!(client.ask(&["AUTH", "any-user", "root"]), Value::ok());
    assert_eq!(client.ask(&["RL.OVERRIDE", "login", "k", "GET"]), Value::Null);
    assert_eq!(client.numbers("RL.RESET login k")[2], 5);
    client.ask(&["RESET"]);
    assert_eq!(client.error("PING"), NOAUTH);
    assert!(matches!(client.ask(&["HELLO", "3", "AUTH", "default", "asker"]), Value::Map(_)));
    assert_eq!(client.numbers("RL.CHECK login k")[0], 1);
    assert_eq!(client.error("AUTH a b c"), "ERR syntax error");
}

#[test]
fn guessing_ends_the_connection_of_the_guesser_only() {
    let ground = guarded();
    let mut guesser = ground.client();
    for n in 0..10 {
        assert!(guesser.error(&format!("AUTH guess{n}")).starts_with("WRONGPASS"));
        assert_eq!(ground.client().ask(&["AUTH", "asker"]), Value::ok());
    }
    assert!(guesser.error("AUTH guess10").starts_with("WRONGPASS"));
    assert_eq!(guesser.rest(), "");
    let mut client = ground.client();
    assert_eq!(client.ask(&["AUTH", "asker"]), Value::ok());
    assert_eq!(client.numbers("RL.CHECK login k")[0], 1);
}

#[test]
fn an_open_server_takes_no_password() {
    let (_ground, mut client) = Ground::with_client();
    assert!(client.error("AUTH x").starts_with("ERR AUTH <password> called without any password"));
    assert_eq!(client.ask(&["AUTH", "default", "x"]), Value::ok());
}

#[test]
fn a_token_that_is_taken_back_is_taken_back_from_open_connections() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("waterclock.toml");
    std::fs::write(&file, auth(&[("asker", "check")])).unwrap();
    let ground = Ground::of(|| AtWork::serving_file(&file));
    let mut client = ground.client();
    client.ask(&["AUTH", "asker"]);
    assert_eq!(client.ask(&["PING"]), Value::Simple("PONG".to_owned()));
    std::fs::write(&file, auth(&[("other", "check")])).unwrap();
    ground.reload();
    let taken_back = (0..300).any(|_| {
        sleep(Duration::from_millis(50));
        client.ask(&["PING"]) != Value::Simple("PONG".to_owned())
    });
    assert!(taken_back, "an old token goes on");
    assert_eq!(client.error("PING"), NOAUTH);
    assert_eq!(client.ask(&["AUTH", "other"]), Value::ok());
    assert_eq!(client.ask(&["PING"]), Value::Simple("PONG".to_owned()));
}

#[test]
fn strangers_may_send_less() {
    let ground = guarded();
    let mut client = ground.client();
    client.send(b"*11\r\n");
    assert_eq!(client.rest(), "-ERR Protocol error: invalid multibulk length\r\n");
    let mut client = ground.client();
    client.send(b"*1\r\n$16385\r\n");
    assert_eq!(client.rest(), "-ERR Protocol error: invalid bulk length\r\n");
    let mut client = ground.client();
    let words = ["AUTH"; 10];
    assert_eq!(client.ask(&words), Value::Error("ERR syntax error".to_owned()));
}
