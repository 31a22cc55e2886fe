//! A store that fails: what answers then, and how soon.

use std::time::{Duration, Instant};

use tonic::Code as Grpc;
use waterclock_conformance::real::{Proxy, RedisServer};
use waterclock_server::envoy::Code;

use super::scene::{Scene, about, ask, lone, per_user, request, user};

/// The store's own deadline is so long that only the face's can end the wait in time.
fn on(url: &str, on_store_error: &str) -> String {
    let policy = format!("[policies.p]\non_store_error = \"{on_store_error}\"");
    let store = format!("[store]\nurl = \"{url}\"\ndeadline = \"30s\"\n");
    store + &per_user("\"5/d\"").replace("[policies.p]", &policy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_decides_as_memory_does() {
    let redis = RedisServer::start();
    let (_scene, mut client) = Scene::with_client(&on(&redis.url(), "deny")).await;
    // The first calls may meet a connection that is not there yet.
    while ask(&mut client, request(vec![user("first")])).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut admitted = 0;
    for _ in 0..200 {
        if let Ok(response) = ask(&mut client, request(vec![user("alice")])).await {
            admitted += u32::from(response.overall_code() == Code::Ok);
        }
    }
    // A call that timed out may have been charged; none is admitted twice.
    assert!((1..=5).contains(&admitted), "{admitted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "how long a caller waits is what is tested")]
async fn a_hanging_store_is_given_up_in_time() {
    let redis = RedisServer::start();
    for (on_store_error, expected) in
        [("deny", Err(Grpc::Unavailable)), ("local", Ok(Code::Ok)), ("allow", Ok(Code::Ok))]
    {
        let proxy = Proxy::start(redis.port());
        let scene = Scene::new(&on(&proxy.url(), on_store_error)).await;
        let mut client = scene.client().await;
        while ask(&mut client, request(vec![user("first")])).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        proxy.swallow_replies();
        for _ in 0..10 {
            let started = Instant::now();
            let answer = ask(&mut client, request(vec![user(on_store_error)])).await;
            let took = started.elapsed();
            assert!(took < Duration::from_secs(5), "{on_store_error}: {took:?}");
            match &answer {
                Ok(response) if on_store_error == "local" => {
                    // This node's share is limited as well.
                    assert!(format!("{:?}", response.dynamic_metadata).contains("local"));
                }
                Ok(response) => assert_eq!(Ok(response.overall_code()), expected),
                Err(status) => assert_eq!(Err(status.code()), expected, "{status}"),
            }
        }
    }
}

/// Redis takes longer than Envoy waits, but far less than the store may. That calls of Envoy give up does not make other
/// answers local.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_give_up_cost_others_nothing() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port());
    let (scene, mut client) = Scene::with_client(&on(&proxy.url(), "local")).await;
    let mut http = scene.http().await;
    proxy.latency(Duration::from_millis(30));
    let gives_up = tokio::spawn(async move {
        for _ in 0..50 {
            let response = ask(&mut client, request(vec![user("alice")])).await.unwrap();
            assert!(format!("{:?}", response.dynamic_metadata).contains("local"));
        }
    });
    let mut answers = 0;
    while !gives_up.is_finished() {
        let body = format!(r#"{{"policy":"p","key":"bob{answers}"}}"#);
        let answer = http.post("/v1/check", &body).await;
        assert_eq!(answer.json()["source"], "authoritative", "{}", answer.body);
        answers += 1;
    }
    gives_up.await.unwrap();
    assert!(answers > 5 && !scene.server().engine.is_degraded(), "{answers}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_store_is_never_over_limit() {
    let redis = RedisServer::start();
    redis.kill();
    let (_scene, mut client) = Scene::with_client(&on(&redis.url(), "deny")).await;
    for _ in 0..5 {
        let status = ask(&mut client, request(vec![user("alice")])).await.unwrap_err();
        assert_eq!(status.code(), Grpc::Unavailable);
    }
    let (_scene, mut client) = Scene::with_client(&on(&redis.url(), "local")).await;
    for left in (0..5).rev() {
        assert_eq!(lone(&mut client, user("alice")).await, (Code::Ok, left));
    }
    let response = about(&mut client, vec![user("alice")]).await;
    assert_eq!(response.overall_code(), Code::OverLimit);
}
