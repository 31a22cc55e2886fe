//! Redis is full and evicts nothing.

use waterclock::{Failure, Source, Store, Verb};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::Serving;

use super::DENY;
use crate::scene::{PATIENT, asking, one, still_bucket, store};

/// Three megabytes too many.
fn fill(server: &RedisServer) {
    let large = "x".repeat(1 << 20);
    for i in 0..6 {
        server.command(&["SET", &format!("filler{i}"), &large]).unwrap();
    }
    server.command(&["CONFIG", "SET", "maxmemory", "3mb"]).unwrap();
}

fn free(server: &RedisServer) {
    (0..6).for_each(|i| _ = server.command(&["DEL", &format!("filler{i}")]).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_and_free_again() {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).deadline(PATIENT), still_bucket(10)).await;
    fill(&server);
    for _ in 0..30 {
        let answer = store.apply(Verb::Check, &[one("key")]).await.unwrap().remove(0);
        assert_eq!(answer.source, Source::Local);
    }
    store.set_policy_as(still_bucket(10), DENY).await.unwrap();
    let error = store.apply(Verb::Check, &[one("key")]).await.unwrap_err();
    assert_eq!(error.failure(), Some(Failure::OutOfMemory), "{error}");
    // It answers: it is not given up, and the first call that it can serve it serves.
    assert!(!store.is_degraded());
    free(&server);
    store.set_policy_as(still_bucket(10), Serving::default()).await.unwrap();
    let answer = store.apply(Verb::Check, &[one("key")]).await.unwrap().remove(0);
    assert_eq!(answer.source, Source::Authoritative);
}

/// A Redis that may drop records that still count says so when it is greeted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eviction_is_warned_of() {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).deadline(PATIENT), still_bucket(10)).await;
    assert_eq!(store.probe().await.unwrap(), Vec::<String>::new());
    server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
    let warnings = store.probe().await.unwrap();
    assert!(matches!(&*warnings, [one] if one.contains("allkeys-lru")), "{warnings:?}");
}
