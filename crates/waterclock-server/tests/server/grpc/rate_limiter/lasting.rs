//! Calls that last: waits and watches.

use std::time::Duration;

use tokio_stream::StreamExt;
use tonic::Code;
use waterclock_server::rate_limiter::{RateLimiterClient, WaitRequest, WatchRequest};

use super::{charge, check, costing, left, scene};
use crate::grpc::scene::Scene;
use crate::patience::eventually;

fn waiting(key: &str, within_us: u64) -> WaitRequest {
    WaitRequest { check: Some(charge("slow", key)), within_us }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_are_admitted_or_refused_at_once() {
    let (_scene, mut client) = scene().await;
    assert!(check(&mut client, charge("slow", "a")).await.unwrap().allowed);
    let refused = client.wait(waiting("a", 1_000)).await.unwrap().into_inner();
    assert!(!refused.allowed && refused.retry_after_us.unwrap() > 1_000);
    assert!(client.wait(waiting("a", 30_000_000)).await.unwrap().into_inner().allowed);
    let status = client.wait(waiting("a", 60_000_001)).await.unwrap_err();
    assert!(status.code() == Code::InvalidArgument && status.message().contains("`within_us`"));
}

/// A caller that cancels leaves the line and charges nothing: the next one has its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_wait_gives_back() {
    let scene = Scene::new("[policies.slow]\nlimits = [\"1/20s\"]\n").await;
    let mut client = RateLimiterClient::new(scene.channel().await);
    assert!(check(&mut client, charge("slow", "a")).await.unwrap().allowed);
    let in_line = || {
        let text = scene.server().metrics_text();
        let line =
            text.lines().find_map(|line| line.strip_prefix("waterclock_waiting{policy=\"slow\"} "));
        line.unwrap().to_owned()
    };
    let mut waiter = client.clone();
    let waits = tokio::spawn(async move { waiter.wait(waiting("a", 60_000_000)).await });
    eventually("it is in line", async || in_line() == "1").await;
    waits.abort();
    eventually("it has left the line", async || in_line() == "0").await;
    client.refund(costing("slow", "a", 1)).await.unwrap();
    assert_eq!(left(&mut client, "slow", "a").await, 1, "nothing was charged");
    assert!(check(&mut client, charge("slow", "a")).await.unwrap().allowed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_counts_and_ends_with_the_server() {
    let (scene, mut client) = scene().await;
    let mut all = client.watch(WatchRequest::default()).await.unwrap().into_inner();
    let first = all.next().await.unwrap().unwrap();
    assert_eq!((first.policies.len(), &*first.phase, first.degraded), (5, "serving", false));
    check(&mut client, costing("login", "a", 3)).await.unwrap();
    check(&mut client, charge("login", "a")).await.unwrap();
    let one = WatchRequest { policy: "login".to_owned() };
    let mut one = client.watch(one).await.unwrap().into_inner();
    let login = one.next().await.unwrap().unwrap();
    let policy = &login.policies[0];
    let totals = policy.totals.unwrap();
    assert_eq!((login.policies.len(), &*policy.name, policy.keys), (1, "login", 1));
    assert_eq!((totals.allowed, totals.refused), (1, 1));
    let next = all.next().await.unwrap().unwrap();
    assert!(
        next.at_us > first.at_us && next.totals.unwrap().allowed >= first.totals.unwrap().allowed
    );
    let unknown = WatchRequest { policy: "logn".to_owned() };
    assert_eq!(client.watch(unknown).await.unwrap_err().code(), Code::NotFound);
    let stopping = tokio::spawn(scene.stop());
    let last = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            match all.next().await {
                Some(Ok(_)) => {}
                ended => break ended,
            }
        }
    });
    let last = last.await.unwrap();
    assert!(last.is_none_or(|last| last.unwrap_err().code() == Code::Unavailable));
    stopping.await.unwrap();
}

/// One address has a part of the feeds only, as many as there are in all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_are_bounded() {
    let (_scene, mut client) = scene().await;
    let mut feeds = Vec::new();
    let status = loop {
        match client.watch(WatchRequest::default()).await {
            Ok(feed) => feeds.push(feed),
            Err(status) => break status,
        }
        assert!(feeds.len() <= 64);
    };
    assert_eq!((status.code(), feeds.len()), (Code::ResourceExhausted, 64));
    drop(feeds);
    eventually("there is room again", async || {
        let mut client = client.clone();
        client.watch(WatchRequest::default()).await.is_ok()
    })
    .await;
}
