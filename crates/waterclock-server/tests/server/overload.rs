//! More requests at once than there is room for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use waterclock_config::Config;
use waterclock_conformance::real::{Proxy, RedisServer};
use waterclock_server::{Room, Timing};

use crate::at_work::{AtWork, hurried};
use crate::patience::eventually;

const CHECK: &str = r#"{"policy":"p","key":"k"}"#;

/// A slow store fills the room for requests. Further requests are refused at once, by a status
/// that cannot be taken for a refusal; and when the store is well again, so is the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_are_turned_away_at_once() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port());
    let text = format!(
        "[store]\nurl = \"{}\"\ndeadline = \"10s\"\n[policies.p]\non_store_error = \"deny\"\nlimits = [\"1000/h\"]\n",
        proxy.url()
    );
    let room = Room { requests: 4, ..Room::default() };
    let config = Config::read("test.toml", &text).unwrap();
    let server = AtWork::with(config, Timing { room, ..hurried() }).await;
    let mut client = server.http().await;
    eventually("a store at work", async || {
        client.post("/v1/check", CHECK).await.json()["source"] == "authoritative"
    })
    .await;
    proxy.delay(Duration::from_millis(500));
    let busy = Arc::new(AtomicBool::new(true));
    let mut others = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (mut client, busy) = (server.http().await, Arc::clone(&busy));
        others.spawn(async move {
            while busy.load(Ordering::Relaxed) {
                let status = client.post("/v1/check", CHECK).await.status;
                assert!([200, 503].contains(&status), "{status}");
            }
        });
    }
    let mut turned_away = 0;
    eventually("overload", async || {
        let answer = client.post("/v1/check", CHECK).await;
        assert_ne!(answer.status, 429, "overload is no refusal");
        if answer.status == 503 && answer.body.contains("overloaded") {
            assert_eq!(answer.header("retry-after"), Some("1"));
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            turned_away += 1;
        }
        turned_away == 20
    })
    .await;
    let metrics = server.running.server().metrics_text();
    let shed = metrics.split_once("waterclock_shed_total{face=\"http\"} ").unwrap().1;
    assert!(shed.lines().next().unwrap().parse::<u64>().unwrap() >= 20, "{metrics}");
    // Monitoring still works.
    for path in ["/healthz", "/readyz", "/metrics", "/v1/config", "/v1/live", "/v1/policies"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
    proxy.pass();
    busy.store(false, Ordering::Relaxed);
    while let Some(other) = others.join_next().await {
        other.expect("an answer to everything");
    }
    eventually("recovery", async || client.post("/v1/check", CHECK).await.status == 200).await;
    for _ in 0..50 {
        assert_eq!(client.post("/v1/check", CHECK).await.status, 200);
    }
}
