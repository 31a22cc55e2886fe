//! Two processes' worth of requests, one limit, and a real Redis between them.

use std::convert::Infallible;
use std::time::Duration;

use tokio::task::JoinSet;
use tower::{Layer, ServiceExt, service_fn};
use waterclock::{Clock, Limit, MonotonicClock, Policy};
use waterclock_conformance::real::RedisServer;
use waterclock_http::{PaceLayer, Pacer};
use waterclock_redis::RedisStore;

const EACH: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_share_a_redis_share_a_pace() {
    let redis = RedisServer::start();
    let (clock, mut calls) = (MonotonicClock::default(), JoinSet::new());
    let start = clock.now();
    for _ in 0..2 {
        let store = RedisStore::connect(&redis.url()).await.expect("a store");
        let policy = Policy::new("outgoing", [Limit::per_second(20).with_capacity(1)]);
        let pacer = Pacer::shared(store, policy.expect("a policy")).await.expect("a pacer");
        let layer = PaceLayer::with_key(pacer, |_: &()| "api.example".to_owned());
        let sent = service_fn(|()| async { Ok::<_, Infallible>(()) });
        let pace = layer.within(Duration::from_secs(60)).layer(sent);
        for _ in 0..EACH {
            calls.spawn(pace.clone().oneshot(()));
        }
    }
    for result in calls.join_all().await {
        assert_eq!(result, Ok(()));
    }
    // Forty at twenty per second are 1.95 s. Unshared, they would take half of that. The
    // rest is slack for a busy machine, where the store may fall back once.
    assert!(clock.now().since(start) >= Duration::from_millis(1_500));
}
