//! Several servers with one Redis: all proxies together hold the limit.

use std::time::Duration;

use waterclock_conformance::real::{Proxy as Between, RedisServer};

use super::super::scene::{Scene, per_user};
use super::proxy::{Assigned, Proxy};

fn on(url: &str, limit: &str, on_store_error: &str) -> String {
    let policy = format!("[policies.p]\non_store_error = \"{on_store_error}\"");
    let store = format!("[store]\nurl = \"{url}\"\ndeadline = \"5s\"\nnodes = 2\n");
    store + &per_user(limit).replace("[policies.p]", &policy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_servers_hand_out_one_limit() {
    let redis = RedisServer::start();
    let config = on(&redis.url(), "\"40/d\"", "deny");
    let scenes = [Scene::new(&config).await, Scene::new(&config).await];
    let (mut proxies, mut units) = (Vec::new(), 0);
    for at in 0..40 {
        let mut proxy = Proxy::open(scenes[at % 2].channel().await).await.unwrap();
        match proxy.first(&[("user", "alice")]).await {
            Assigned::Units(more) => units += more,
            Assigned::DenyAll => {}
            other => panic!("{other:?}"),
        }
        proxies.push(proxy);
    }
    assert!((10..=40).contains(&units), "{units}");
    assert_eq!(
        Proxy::open(scenes[0].channel().await).await.unwrap().first(&[("user", "alice")]).await,
        Assigned::DenyAll
    );
}

/// Without the store, each policy's `on_store_error` applies: nothing, this server's part, or everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_fails() {
    let redis = RedisServer::start();
    for on_store_error in ["deny", "local", "allow"] {
        let between = Between::start(redis.port());
        let config = on(&between.url(), "\"64/d\"", on_store_error).replace("5s", "50ms");
        let scene = Scene::new(&config).await;
        between.swallow_replies();
        while !scene.server().engine.is_degraded() {
            let mut proxy = Proxy::open(scene.channel().await).await.unwrap();
            proxy.first(&[("user", "first")]).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut proxy = Proxy::open(scene.channel().await).await.unwrap();
        let assigned = proxy.first(&[("user", on_store_error)]).await;
        match on_store_error {
            "deny" => assert_eq!(assigned, Assigned::DenyAll),
            "local" => assert!(matches!(assigned, Assigned::Units(1..=32)), "{assigned:?}"),
            _ => assert_eq!(assigned, Assigned::AllowAll),
        }
    }
}
