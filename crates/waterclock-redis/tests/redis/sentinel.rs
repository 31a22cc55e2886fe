//! Behind real sentinels: the primary dies, another takes over, no client restarts.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use waterclock::{Charge, Limit, Policy, Source, Store, Verb};
use waterclock_conformance::real::Sentinel;
use waterclock_redis::RedisStore;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_is_followed() {
    let sentinel = Sentinel::start();
    let store = RedisStore::connect(&sentinel.url()).await.unwrap();
    let policy: Policy = Limit::per_hour(1_000_000).with_name("p").into();
    store.set_policy(policy).await.unwrap();
    let check = async || {
        let charge = Charge { policy: "p", key: b"alice", cost: 1.into() };
        store.apply(Verb::Check, &[charge]).await.unwrap()[0].source
    };
    while check().await != Source::Authoritative {}
    sentinel.kill_primary();
    let mut sources = Vec::new();
    for _ in 0..20 {
        sources.push(check().await);
    }
    assert!(sources.contains(&Source::Local), "{sources:?}");
    tokio::task::block_in_place(|| sentinel.wait_for_failover());
    let healed = Instant::now();
    while check().await != Source::Authoritative {
        assert!(healed.elapsed() < Duration::from_secs(10), "the new primary was never found");
        sleep(Duration::from_millis(5)).await;
    }
    println!("authoritative {:?} after the failover", healed.elapsed());
}

#[tokio::test]
async fn an_unknown_service_is_said_to_be_one() {
    let sentinel = Sentinel::start();
    let url = sentinel.url().replace("/service-name", "/another");
    let error = RedisStore::connect(&url).await.unwrap_err().to_string();
    assert!(error.contains("has no service `another`"), "{error}");
}
