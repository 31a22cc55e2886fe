//! A process starts with other numbers than the one before it: what was spent stays spent.

use std::time::Duration;

use waterclock::{Charge, FixedWindow, Limit, Policy, Store, Verb};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::RedisStore;

async fn remaining(url: &str, policy: Policy, cost: u64) -> u64 {
    let store = RedisStore::builder(url).deadline(Duration::from_secs(5)).connect().await.unwrap();
    store.set_policy(policy).await.unwrap();
    let charge = Charge::new("p", b"alice", cost);
    let answer = store.apply(Verb::Check, &[charge]).await.unwrap().remove(0);
    assert!(answer.decision.is_allowed());
    answer.decision.remaining().unwrap()
}

fn bucket(units: u64) -> Policy {
    Policy::new("p", [Limit::per_hour(units)]).unwrap()
}

fn window(units: u64) -> Policy {
    Policy::new("p", [FixedWindow::new(units, Duration::from_secs(3_600)).unwrap()]).unwrap()
}

#[tokio::test]
async fn what_an_earlier_process_spent_stays_spent_under_new_numbers() {
    let server = RedisServer::start();
    let url = server.url();
    assert_eq!(remaining(&url, bucket(100), 100).await, 0);
    assert_eq!(remaining(&url, bucket(1_000), 1).await, 899);
    // Over a definition under which nothing was asked, and back.
    assert_eq!(remaining(&url, bucket(1_000), 0).await, 899);
    RedisStore::connect(&url).await.unwrap().set_policy(bucket(500)).await.unwrap();
    assert_eq!(remaining(&url, bucket(2_000), 0).await, 1_899);
    assert_eq!(remaining(&url, bucket(1_000), 0).await, 899);
}

#[tokio::test]
async fn another_algorithm_starts_fresh_and_leaves_no_key_without_an_end() {
    let server = RedisServer::start();
    let url = server.url();
    assert_eq!(remaining(&url, bucket(100), 100).await, 0);
    assert_eq!(remaining(&url, window(100), 1).await, 99);
    assert_eq!(remaining(&url, window(200), 1).await, 198);
    for key in server.command(&["KEYS", "*"]).as_array() {
        assert!(server.command(&["PTTL", &key.as_text()]).as_int() > 0, "{}", key.as_text());
    }
}
