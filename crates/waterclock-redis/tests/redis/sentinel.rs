//! Behind real sentinels: the primary dies, another takes over, no client restarts.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use waterclock::{Charge, Failure, Limit, Policy, Source, Store, Verb};
use waterclock_conformance::real::Sentinel;
use waterclock_redis::RedisStore;

use crate::faults::rights::LEAST;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_is_followed() {
    let sentinel = Sentinel::start();
    let store = RedisStore::connect(&sentinel.url()).await.unwrap();
    let policy: Policy = Limit::per_hour(1_000_000).with_name("p").into();
    store.set_policy(policy).await.unwrap();
    let check = async || {
        let charge = Charge::new("p", b"alice", 1);
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

/// The servers and the sentinels require the same login.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_with_a_password() {
    let servers = [("requirepass", "sesame"), ("masterauth", "sesame")];
    let sentinels = [
        ("requirepass", "sesame"),
        ("sentinel", "sentinel-pass sesame"),
        ("sentinel", "auth-pass service-name sesame"),
    ];
    let service = Sentinel::start_with(&servers, &sentinels);
    let error = RedisStore::connect(&service.url()).await.unwrap_err();
    assert_eq!(error.failure(), Some(Failure::Auth), "{error}");
    let url = service.url().replace("://", "://:sesame@");
    RedisStore::connect(&url).await.unwrap();
    // Users with the rights that the guide lists are enough.
    let guest = ["ACL", "SETUSER", "guest", "on", ">secret"];
    for server in service.servers() {
        let rights = LEAST.split(' ');
        server.command(&guest.into_iter().chain(rights).collect::<Vec<_>>()).unwrap();
    }
    let rights = "+sentinel|get-master-addr-by-name +sentinel|master +subscribe &+switch-master";
    assert!(include_str!("../../docs/guide.md").contains(rights));
    for sentinel in service.sentinels() {
        let rights = rights.split(' ');
        sentinel.command(&guest.into_iter().chain(rights).collect::<Vec<_>>()).unwrap();
    }
    let url = service.url().replace("://", "://guest:secret@");
    let store = RedisStore::connect(&url).await.unwrap();
    subscribed_to(&service, 3).await;
    drop(store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_over_tls() {
    let service = Sentinel::start_with_tls();
    let builder = RedisStore::builder(&service.url());
    let store = builder.root_certificate(service.ca_pem().as_bytes()).connect().await.unwrap();
    subscribed_to(&service, 3).await;
    drop(store);
    let error = RedisStore::connect(&service.url()).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}

/// Waits until so many clients have subscribed to what sentinels tell.
async fn subscribed_to(service: &Sentinel, count: usize) {
    let subscriptions = || {
        let counts = service.sentinels().iter().map(|sentinel| {
            let clients = sentinel.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).as_text();
            clients.lines().filter(|line| line.contains(" sub=1 ")).count()
        });
        counts.sum::<usize>()
    };
    let start = Instant::now();
    while subscriptions() != count {
        assert!(start.elapsed() < Duration::from_secs(5), "{} subscriptions", subscriptions());
        sleep(Duration::from_millis(20)).await;
    }
}

/// A store that is dropped stops to watch the sentinels.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_store_leaves_the_sentinels() {
    let service = Sentinel::start();
    let store = RedisStore::connect(&service.url()).await.unwrap();
    subscribed_to(&service, 3).await;
    drop(store);
    subscribed_to(&service, 0).await;
}
