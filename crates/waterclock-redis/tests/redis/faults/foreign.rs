//! Another application's value is where a record should be.

use tokio::task::JoinSet;
use waterclock::{Failure, FixedWindow, Policy, Source, Store, Verb};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::RedisStore;

use super::DENY;
use crate::scene::{HOUR, PATIENT, asking, keys, one, only_key, still_bucket, store};

/// Makes a record, then puts something else in its place.
async fn spoil(server: &RedisServer, store: &RedisStore, command: &str, value: &str) -> Vec<u8> {
    assert_eq!(check(store, "spoilt").await, Ok(Source::Authoritative));
    let key = only_key(server).expect("a record");
    server.command(&[b"DEL", &*key]).unwrap();
    server.command(&[command.as_bytes(), &key, value.as_bytes()]).unwrap();
    key
}

async fn check(store: &RedisStore, key: &str) -> Result<Source, Failure> {
    match store.apply(Verb::Check, &[one(key)]).await {
        Ok(answers) => Ok(answers[0].source),
        Err(error) => Err(error.failure().unwrap()),
    }
}

async fn suffer(policy: Policy, command: &str, value: &str) {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).deadline(PATIENT).serving(DENY), policy).await;
    let spoilt = spoil(&server, &store, command, value).await;
    let before = server.command(&[b"DUMP", &*spoilt]);
    let mut callers = JoinSet::new();
    for caller in 0..64 {
        let store = store.clone();
        callers.spawn(async move {
            let key = if caller % 4 == 0 { "spoilt".to_owned() } else { format!("key {caller}") };
            (caller % 4 == 0, check(&store, &key).await)
        });
    }
    for (is_spoilt, outcome) in callers.join_all().await {
        let expected = if is_spoilt { Err(Failure::Foreign) } else { Ok(Source::Authoritative) };
        assert_eq!(outcome, expected);
    }
    assert_eq!(server.command(&[b"DUMP", &*spoilt]), before, "it is not ours to touch");
    assert_eq!(keys(&server).len(), 49);
    // It is the key that is spoilt, not the server.
    assert!(!store.is_degraded());
    let both = store.apply(Verb::Check, &[one("spoilt"), one("key 1")]).await.unwrap_err();
    assert_eq!(both.failure(), Some(Failure::Foreign));
}

fn window() -> Policy {
    Policy::new("p", [FixedWindow::new(100, HOUR).unwrap()]).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_for_a_number() {
    suffer(still_bucket(100), "LPUSH", "element").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_word_for_a_number() {
    suffer(still_bucket(100), "SET", "hello").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn infinity_for_a_number() {
    suffer(still_bucket(100), "SET", "inf").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_for_a_record() {
    suffer(window(), "LPUSH", "element").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_text_for_a_record() {
    suffer(window(), "SET", "hello").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_text_for_a_record() {
    suffer(window(), "SET", "another application's value").await;
}

/// The default: this node's share stands in for the key that cannot be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stands_in_for_a_spoilt_key() {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).deadline(PATIENT), still_bucket(100)).await;
    spoil(&server, &store, "LPUSH", "element").await;
    assert_eq!(check(&store, "spoilt").await, Ok(Source::Local));
    assert_eq!(check(&store, "other").await, Ok(Source::Authoritative));
}
