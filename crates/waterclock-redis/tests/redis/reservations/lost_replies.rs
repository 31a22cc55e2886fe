//! Replies are lost, and a repeated call gets the original result: nothing is done twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use waterclock::{Failure, FixedWindow, Policy, Settlement, Store};
use waterclock_conformance::real::{Proxy, RedisServer};
use waterclock_redis::{OnStoreError, RedisStore, Serving};

use super::{TTL_MS, commit, hold};
use crate::scene::{DEADLINE, HOUR, PATIENT, SECOND, asking, millis, remaining, store};

const LIMIT: u64 = 1_000_000;
const HOLDERS: u64 = 8;
const EACH: u64 = 60;

fn window() -> Policy {
    Policy::new("p", [FixedWindow::new(LIMIT, HOUR).unwrap()]).unwrap()
}

/// A node that fails when Redis does.
async fn behind(proxy: &Proxy, deadline: Duration) -> RedisStore {
    let serving = Serving::new(OnStoreError::Deny);
    store(asking(&proxy.url()).serving(serving).deadline(deadline), window()).await
}

/// What is used, as another node sees it.
async fn used(server: &RedisServer) -> u64 {
    let store = store(asking(&server.url()).deadline(PATIENT), window()).await;
    LIMIT - remaining(&store, "key").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asked_for_again_it_is_the_same_reservation() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    // A lost reply costs this much, and a new connection must be made within it.
    let store = behind(&proxy, SECOND).await;
    // From now on the server knows the script.
    hold(&store, "before", "other", 1).await.unwrap();
    proxy.swallow_replies();
    let lost = hold(&store, "first", "key", 100).await.unwrap_err();
    assert_eq!(lost.failure(), Some(Failure::Timeout));
    assert_eq!(used(&server).await, 100, "it was charged");
    proxy.pass();
    let again = hold(&store, "first", "key", 100).await.unwrap();
    assert_eq!(again.answers[0].decision.granted(), 100);
    assert_eq!(used(&server).await, 100);
    let settled = commit(&store, "first", 60).await.unwrap();
    assert_eq!(commit(&store, "first", 99).await.unwrap(), settled);
    assert_eq!(store.settle("first", Settlement::Cancel).await.unwrap(), settled);
    hold(&store, "first", "key", 100).await.unwrap();
    assert_eq!(used(&server).await, 60);
}

/// Replies are lost at random while many callers reserve and settle, each repeating until it has an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_used_is_what_was_committed() {
    let server = RedisServer::start();
    let proxy = Arc::new(Proxy::start(server.port()));
    let store = behind(&proxy, DEADLINE).await;
    // From now on the server knows the scripts.
    while hold(&store, "before", "other", 1).await.is_err() {}
    while commit(&store, "before", 0).await.is_err() {}
    let stop = Arc::new(AtomicBool::new(false));
    let weather = {
        let (proxy, stop) = (Arc::clone(&proxy), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut lost = 0;
            while !stop.load(Ordering::Relaxed) {
                proxy.swallow_replies();
                sleep(millis(fastrand::u64(1..30))).await;
                proxy.pass();
                sleep(millis(fastrand::u64(10..60))).await;
                lost += 1;
            }
            lost
        })
    };
    let mut holders = JoinSet::new();
    for holder in 0..HOLDERS {
        let store = store.clone();
        holders.spawn(async move {
            let (mut used, mut made_before) = (0, 0);
            for number in 0..EACH {
                let id = format!("{holder}-{number}");
                let reserved = loop {
                    match hold(&store, &id, "key", 10).await {
                        Ok(reserved) => break reserved,
                        Err(_) => sleep(millis(5)).await,
                    }
                };
                // Its time runs since it was made.
                made_before += u64::from(reserved.expires_in < millis(TTL_MS));
                let settled = loop {
                    // Only the first to arrive counts, and the callers cannot know which that was.
                    match commit(&store, &id, fastrand::u64(0..20)).await {
                        Ok(settled) => break settled,
                        Err(_) => sleep(millis(5)).await,
                    }
                };
                used += settled.used[0].most();
            }
            (used, made_before)
        });
    }
    let told = holders.join_all().await;
    stop.store(true, Ordering::Relaxed);
    let storms = weather.await.unwrap();
    let (committed, made) = told.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(made > 0, "no reply was lost in {storms} storms");
    assert_eq!(
        used(&server).await,
        committed,
        "{made} were made and not heard of, {storms} storms"
    );
}

/// Without Redis nothing is held: no other node could settle it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_nothing_is_held() {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).deadline(SECOND), window()).await;
    hold(&store, "before", "key", 1).await.unwrap();
    server.kill();
    assert!(hold(&store, "after", "key", 1).await.unwrap_err().failure().is_some());
    assert!(commit(&store, "before", 1).await.unwrap_err().failure().is_some());
}
