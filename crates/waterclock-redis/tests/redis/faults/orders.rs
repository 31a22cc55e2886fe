//! What the operator ordered for the time without Redis.

use tokio::time::Instant;
use waterclock::{Failure, Source, Store, Verb};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::{OnStoreError, RedisStore, Serving};

use crate::scene::{SECOND, asking, one, still_bucket, until_degraded};

async fn served_as(server: &RedisServer, on_store_error: OnStoreError) -> RedisStore {
    let store = asking(&server.url()).deadline(SECOND).start().unwrap();
    let serving = Serving::new(on_store_error);
    store.set_policy_as(still_bucket(3), serving).await.unwrap();
    store
}

/// The source of the next calls, and how many of ten are admitted.
async fn ten_calls(store: &RedisStore) -> (Vec<Result<Source, Failure>>, u64) {
    let (mut who, mut admitted) = (Vec::new(), 0);
    for _ in 0..10 {
        who.push(match store.apply(Verb::Check, &[one("key")]).await {
            Ok(answers) => {
                admitted += answers[0].decision.granted();
                Ok(answers[0].source)
            }
            Err(error) => Err(error.failure().unwrap()),
        });
    }
    (who, admitted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_serves_the_share() {
    let server = RedisServer::start();
    let store = served_as(&server, OnStoreError::Local).await;
    server.kill();
    let (who, admitted) = ten_calls(&store).await;
    assert!(who.iter().all(|who| *who == Ok(Source::Local)), "{who:?}");
    assert_eq!(admitted, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn allow_admits_everything() {
    let server = RedisServer::start();
    let store = served_as(&server, OnStoreError::Allow).await;
    server.kill();
    let (who, admitted) = ten_calls(&store).await;
    assert!(who.iter().all(|who| *who == Ok(Source::Policy)), "{who:?}");
    assert_eq!(admitted, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deny_fails() {
    let server = RedisServer::start();
    let store = served_as(&server, OnStoreError::Deny).await;
    server.kill();
    let (who, _) = ten_calls(&store).await;
    let down = [Err(Failure::Unreachable), Err(Failure::Open)];
    assert!(who.iter().all(|who| down.contains(who)), "{who:?}");
}

/// The strictest order among the policies of one check is followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_strictest_order_counts() {
    let server = RedisServer::start();
    let store = served_as(&server, OnStoreError::Allow).await;
    let strict = Serving::new(OnStoreError::Deny);
    let other = waterclock::Policy::new("strict", [waterclock::Limit::per_hour(3)]).unwrap();
    store.set_policy_as(other, strict).await.unwrap();
    server.kill();
    let strict = waterclock::Charge::new("strict", b"key", 1);
    let error = store.apply(Verb::Check, &[one("key"), strict]).await.unwrap_err();
    assert_eq!(error.failure(), Some(Failure::Unreachable));
}

/// A store that was started before its Redis serves what it can, and finds Redis when it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn started_before_redis() {
    let server = RedisServer::start();
    server.kill();
    let store = served_as(&server, OnStoreError::Local).await;
    let (who, _) = ten_calls(&store).await;
    assert!(who.iter().all(|who| *who == Ok(Source::Local)), "{who:?}");
    server.restart();
    until_degraded(&store, false, Instant::now()).await;
    let (who, _) = ten_calls(&store).await;
    assert!(who.iter().all(|who| *who == Ok(Source::Authoritative)), "{who:?}");
}
