//! What clients send to get started.

use super::client::Value;
use super::ground::Ground;

#[test]
fn greetings() {
    let (_ground, mut client) = Ground::with_client();
    assert_eq!(client.ask(&["PING"]), Value::Simple("PONG".to_owned()));
    assert_eq!(client.ask(&["ping", "hello"]), Value::bulk("hello"));
    assert_eq!(client.ask(&["ECHO", "a\r\nb"]), Value::bulk("a\r\nb"));
    assert_eq!(client.ask(&["SELECT", "0"]), Value::ok());
    assert_eq!(client.error("SELECT 1"), "ERR DB index is out of range");
    assert_eq!(client.error("SELECT x"), "ERR value is not an integer or out of range");
    assert_eq!(client.ask(&["RESET"]), Value::Simple("RESET".to_owned()));
    assert_eq!(client.error("PING a b"), "ERR wrong number of arguments for 'ping' command");
    assert_eq!(client.ask(&["QUIT"]), Value::ok());
    assert_eq!(client.rest(), "");
}

#[test]
fn lines_that_people_type() {
    let (_ground, mut client) = Ground::with_client();
    client.send(b"PING\r\n\r\n  echo  'two words' \nECHO \"x\"\r\n");
    assert_eq!(client.read(), Value::Simple("PONG".to_owned()));
    assert_eq!(client.read(), Value::bulk("two words"));
    assert_eq!(client.read(), Value::bulk("x"));
}

#[test]
fn hello_in_both_versions() {
    let (_ground, mut client) = Ground::with_client();
    let Value::Array(flat) = client.ask(&["HELLO", "2", "SETNAME", "me"]) else { panic!("a list") };
    assert_eq!(flat.len(), 14);
    assert_eq!(flat[..2], [Value::bulk("server"), Value::bulk("redis")]);
    assert_eq!(client.ask(&["CLIENT", "GETNAME"]), Value::bulk("me"));

    let Value::Map(pairs) = client.ask(&["HELLO", "3"]) else { panic!("a map") };
    assert!(pairs.contains(&(Value::bulk("proto"), Value::Integer(3))));
    assert!(pairs.contains(&(Value::bulk("version"), Value::bulk("7.0.0"))));
    assert!(pairs.contains(&(Value::bulk("modules"), Value::Array(vec![]))));
    assert!(matches!(client.ask(&["INFO"]), Value::Text(_)));
    assert_eq!(client.ask(&["COMMAND", "DOCS"]), Value::Map(vec![]));
    assert_eq!(client.numbers("CL.THROTTLE k 15 30 60"), [0, 16, 15, -1, 2]);

    assert_eq!(client.error("HELLO 4"), "NOPROTO unsupported protocol version");
    assert_eq!(client.error("HELLO x"), "ERR Protocol version is not an integer or out of range");
    assert_eq!(client.error("HELLO 3 FOO"), "ERR Syntax error in HELLO option 'FOO'");
    assert_eq!(client.error("HELLO 3 AUTH x"), "ERR Syntax error in HELLO option 'AUTH'");
    // What failed has changed nothing.
    assert!(matches!(client.ask(&["HELLO"]), Value::Map(_)));
    client.ask(&["RESET"]);
    assert!(matches!(client.ask(&["HELLO"]), Value::Array(_)));
    assert_eq!(client.ask(&["CLIENT", "GETNAME"]), Value::Null);
}

#[test]
fn what_libraries_say_about_themselves() {
    let ground = Ground::start();
    let (mut client, mut other) = (ground.client(), ground.client());
    for line in
        ["SETNAME worker-1", "SETINFO LIB-NAME redis-py", "SETINFO lib-ver 5.0", "NO-EVICT on"]
    {
        let words: Vec<&str> = ["CLIENT"].into_iter().chain(line.split(' ')).collect();
        assert_eq!(client.ask(&words), Value::ok(), "{line}");
    }
    let Value::Integer(one) = client.ask(&["CLIENT", "ID"]) else { panic!("a number") };
    assert_ne!(other.ask(&["CLIENT", "ID"]), Value::Integer(one));
    let Value::Bulk(info) = client.ask(&["CLIENT", "INFO"]) else { panic!("a text") };
    assert!(String::from_utf8(info).unwrap().contains("name=worker-1"));
    assert_eq!(
        client.ask(&["CLIENT", "SETNAME", "two words"]),
        Value::Error(
            "ERR Client names cannot contain spaces, newlines or special characters.".to_owned()
        )
    );
    assert_eq!(client.error("CLIENT KILL"), "ERR unknown subcommand 'KILL'. Try CLIENT HELP.");
    assert_eq!(
        client.error("CLIENT SETNAME"),
        "ERR wrong number of arguments for 'client|setname' command"
    );
}

#[test]
fn what_there_is() {
    let (_ground, mut client) = Ground::with_client();
    let Value::Array(all) = client.ask(&["COMMAND"]) else { panic!("a list") };
    assert_eq!(client.ask(&["COMMAND", "COUNT"]), Value::Integer(all.len().try_into().unwrap()));
    let Value::Array(one) = client.ask(&["COMMAND", "INFO", "cl.throttle", "get"]) else {
        panic!("a list")
    };
    assert!(all.contains(&one[0]));
    assert_eq!(one[1], Value::Null);
    let Value::Bulk(info) = client.ask(&["INFO", "server"]) else { panic!("a text") };
    let info = String::from_utf8(info).unwrap();
    for line in ["redis_version:7.0.0", "waterclock_version:", "uptime_in_seconds:", "loading:0"] {
        assert!(info.contains(line), "{line} is not in {info}");
    }
}

#[test]
fn what_there_is_not() {
    let (_ground, mut client) = Ground::with_client();
    assert_eq!(
        client.error("EVAL x 0"),
        "ERR unknown command 'EVAL', with args beginning with: 'x' '0' "
    );
    for line in ["CONFIG GET save", "KEYS *", "GET k", "SET k v", "FLUSHALL"] {
        assert!(client.error(line).starts_with("ERR unknown command "), "{line}");
    }
    // A reply stays one line, whatever is in it, and a short one.
    let long = "x".repeat(1_000);
    let Value::Error(text) = client.ask(&["a\r\n+OK", &long, "\x1b[31m"]) else {
        panic!("an error")
    };
    assert!(text.starts_with("ERR unknown command 'a??+OK', with args"), "{text}");
    assert!(text.len() < 300 && !text.contains('\x1b'), "{text}");
}
