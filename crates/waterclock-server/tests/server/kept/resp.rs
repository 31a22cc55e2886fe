//! `RL.POLICY`.

use serde_json::{Value as Json, json};
use waterclock_conformance::real::RedisServer;

use super::{file, get, of};
use crate::at_work::AtWork;
use crate::resp::client::{Client, Value, command};

async fn with<T: Send + 'static>(
    server: &AtWork,
    run: impl FnOnce(Client) -> T + Send + 'static,
) -> T {
    let address = server.resp_address();
    tokio::task::spawn_blocking(move || run(Client::connect(address))).await.unwrap()
}

fn logged_in(mut client: Client, token: &str) -> Client {
    assert_eq!(client.ask(&["AUTH", token]), Value::ok());
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_get_and_del() {
    let (server, mut http) = AtWork::with_client(&file("")).await;
    let shown = with(&server, |client| {
        let mut client = logged_in(client, "root");
        let (five, ten) = (of(5).to_string(), of(10).to_string());
        assert_eq!(client.ask(&["RL.POLICY", "code", "GET"]), Value::Null);
        assert_eq!(client.ask(&["RL.POLICY", "code", "DEL"]), Value::Integer(0));
        assert_eq!(client.ask(&["RL.POLICY", "code", "SET", &five]), Value::ok());
        assert_eq!(client.ask(&["rl.policy", "code", "set", &five]), Value::ok());
        // In one pipeline: what follows a change is decided by it.
        let mut pipeline = command(&["RL.CHECK", "code", "k", "3"]);
        pipeline.extend(command(&["RL.POLICY", "code", "SET", &ten]));
        pipeline.extend(command(&["RL.PEEK", "code", "k", "0"]));
        pipeline.extend(command(&["RL.POLICY", "new", "SET", &five]));
        pipeline.extend(command(&["RL.CHECK", "new", "k"]));
        pipeline.extend(command(&["RL.POLICY", "new", "DEL"]));
        pipeline.extend(command(&["RL.CHECK", "new", "k"]));
        pipeline.extend(command(&["RL.CHECK", "code", "k"]));
        client.send(&pipeline);
        let numbers = |value: Value| match value {
            Value::Array(numbers) => numbers[1..3].to_vec(),
            other => panic!("{other:?}"),
        };
        let of_limit = |limit, left| vec![Value::Integer(limit), Value::Integer(left)];
        assert_eq!(numbers(client.read()), of_limit(5, 2));
        assert_eq!(client.read(), Value::ok());
        assert_eq!(numbers(client.read()), of_limit(10, 7));
        assert_eq!(client.read(), Value::ok());
        assert_eq!(numbers(client.read()), of_limit(5, 4));
        assert_eq!(client.read(), Value::Integer(1));
        assert!(matches!(client.read(), Value::Error(text) if text.contains("no policy 'new'")));
        assert_eq!(numbers(client.read()), of_limit(10, 6));
        match client.ask(&["RL.POLICY", "code", "GET"]) {
            Value::Bulk(shown) => serde_json::from_slice::<Json>(&shown).unwrap(),
            other => panic!("{other:?}"),
        }
    })
    .await;
    assert_eq!(shown, get(&mut http, "code").await.json(), "as HTTP shows it");
    assert_eq!(shown["definition"], of(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn complaints() {
    let (server, _http) = AtWork::with_client(&file("")).await;
    with(&server, |client| {
        let mut client = logged_in(client, "root");
        let mut error = |arguments: &[&str]| match client.ask(arguments) {
            Value::Error(text) => text,
            other => panic!("{arguments:?}: {other:?}"),
        };
        let said = error(&["RL.POLICY", "file", "SET", &of(1).to_string()]);
        assert!(said.contains("configuration file, which wins"), "{said}");
        assert!(error(&["RL.POLICY", "file", "DEL"]).contains("configuration file"));
        assert!(error(&["RL.POLICY", "p", "SET", "{"]).contains("must be JSON"));
        let said =
            error(&["RL.POLICY", "p", "SET", &json!({ "limits": ["1/s"], "mod": 1 }).to_string()]);
        assert!(said.starts_with("ERR ") && said.contains("`mod`"), "{said}");
        assert!(error(&["RL.POLICY", "p", "SET"]).contains("SET json"));
        assert!(error(&["RL.POLICY", "p", "PUT", "{}"]).contains("'PUT'"));
        assert!(error(&["RL.POLICY", "p"]).contains("wrong number of arguments"));
    })
    .await;
    with(&server, |client| {
        let mut client = logged_in(client, "checker");
        for arguments in [&["RL.POLICY", "p", "SET", "{}"][..], &["RL.POLICY", "p", "DEL"]] {
            let said = client.ask(arguments);
            assert!(matches!(&said, Value::Error(text) if text.starts_with("NOPERM")), "{said:?}");
        }
        let said = client.ask(&["RL.POLICY", "file", "GET"]);
        assert!(matches!(&said, Value::Error(text) if text.starts_with("NOPERM")), "{said:?}");
    })
    .await;
}

/// A policy that is set on one server decides on another at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_knows_it_at_once() {
    let redis = RedisServer::start();
    let store = format!(
        "[store]\nurl = \"{}\"\nnodes = 2\ndeadline = \"2s\"\nkey_secret = \"same\"\n",
        redis.url()
    );
    let (one, two) = (AtWork::serving(&file(&store)).await, AtWork::serving(&file(&store)).await);
    with(&one, |client| {
        let mut client = logged_in(client, "root");
        for name in ["a", "b", "c"] {
            assert_eq!(client.ask(&["RL.POLICY", name, "SET", &of(5).to_string()]), Value::ok());
        }
    })
    .await;
    with(&two, |client| {
        let mut client = logged_in(client, "root");
        let mut pipeline = command(&["RL.CHECK", "file", "k"]);
        pipeline.extend(command(&["RL.CHECK", "a", "k"]));
        pipeline.extend(command(&["RL.CHECK", "unknown", "k"]));
        pipeline.extend(command(&["RL.CHECK", "b", "k"]));
        client.send(&pipeline);
        let first = |value: Value| match value {
            Value::Array(numbers) => numbers[..3].to_vec(),
            other => panic!("{other:?}"),
        };
        let integers = |numbers: [i64; 3]| numbers.map(Value::Integer).to_vec();
        assert_eq!(first(client.read()), integers([1, 3, 2]));
        assert_eq!(first(client.read()), integers([1, 5, 4]));
        assert!(matches!(client.read(), Value::Error(_)));
        assert_eq!(first(client.read()), integers([1, 5, 4]));
        assert!(matches!(client.ask(&["RL.POLICY", "c", "GET"]), Value::Bulk(_)));
    })
    .await;
}
