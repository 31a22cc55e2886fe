//! Redis does not let the store in, or not write.

use tokio::time::{Instant, sleep};
use waterclock::{Failure, Source, Store, Verb};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::RedisStore;

use super::DENY;
use crate::oracle::{answered_in_time, latencies, recovery};
use crate::scene::{DEADLINE, PATIENT, Traffic, asking, millis, one, still_bucket, store};

async fn failure_of(url: &str) -> Failure {
    let early = RedisStore::builder(url).connect().await.map(drop).unwrap_err();
    let store = RedisStore::builder(url).serving(DENY).deadline(PATIENT).start().unwrap();
    store.set_policy(still_bucket(10)).await.unwrap();
    let late = store.apply(Verb::Check, &[one("key")]).await.unwrap_err();
    assert_eq!(early.failure(), late.failure(), "{early}; {late}");
    assert!(!late.to_string().contains("sesame") && !early.to_string().contains("sesame"));
    late.failure().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password() {
    let server = RedisServer::start_with(&[("requirepass", "secret")]);
    let addr = server.addr();
    assert_eq!(failure_of(&format!("redis://:sesame@{addr}")).await, Failure::Auth);
    assert_eq!(failure_of(&server.url()).await, Failure::Auth);
    RedisStore::connect(&format!("redis://:secret@{addr}")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_not_permitted() {
    let server = RedisServer::start();
    let rights = ["ACL", "SETUSER", "guest", "on", ">sesame", "~*", "+@all", "-@scripting"];
    server.command(&rights).unwrap();
    let url = format!("redis://guest:sesame@{}", server.addr());
    assert_eq!(failure_of(&url).await, Failure::Auth);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica() {
    let (primary, replica) = (RedisServer::start(), RedisServer::start());
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).unwrap();
    assert_eq!(failure_of(&replica.url()).await, Failure::ReadOnly);
}

/// A primary becomes a replica and a primary again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demoted_and_promoted() {
    let (other, server) = (RedisServer::start(), RedisServer::start());
    let store = store(asking(&server.url()), still_bucket(100_000)).await;
    let traffic = Traffic::start(&store, "hot", 16, millis(2));
    sleep(millis(200)).await;
    server.command(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]).unwrap();
    let demoted = Instant::now();
    while traffic.log.calls().last().unwrap().source() != Some(Source::Local) {
        assert!(demoted.elapsed() < PATIENT, "a replica decides");
        sleep(millis(5)).await;
    }
    sleep(millis(500)).await;
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    let healed = traffic.log.now();
    let calls = traffic.stop_when_back(healed).await;
    answered_in_time(&calls, DEADLINE).unwrap();
    let back = recovery(&calls, healed).unwrap();
    println!("demoted and promoted: {:?}, authoritative after {back:?}", latencies(&calls));
}
