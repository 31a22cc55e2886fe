//! A thousand reloads, half of them of nonsense, while clients keep asking.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Scene, yearly};
use crate::client::Client;
use crate::patience::times;

const CLIENTS: usize = 4;
/// Never changed, and spent at once.
const STEADY: &str = "[policies.steady]\nlimits = [{ name = \"a\", algorithm = \"gcra\", limit = 5, per = \"365d\" }]\n";

#[derive(Default)]
struct Seen {
    done: AtomicBool,
    requests: AtomicU64,
    steady: AtomicU64,
    changing: AtomicU64,
}

async fn hammer(mut client: Client, seen: Arc<Seen>) {
    while !seen.done.load(Ordering::Relaxed) {
        for (policy, admitted) in [("steady", &seen.steady), ("p", &seen.changing)] {
            let body = format!(r#"{{"policy":"{policy}","key":"k"}}"#);
            let answer = client.post("/v1/check", &body).await;
            assert!([200, 429].contains(&answer.status), "{}: {}", answer.status, answer.body);
            admitted.fetch_add(u64::from(answer.status == 200), Ordering::Relaxed);
            seen.requests.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_and_no_key_is_refilled() {
    let with = |limit| format!("{STEADY}{}", yearly(limit));
    let scene = Scene::new(&with(100)).await;
    let seen = Arc::new(Seen::default());
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(hammer(scene.server.http().await, Arc::clone(&seen)));
    }
    let rounds = u64::try_from(times(500, 25)).unwrap();
    for round in 1..=rounds {
        // One unit more each time, and not everything that was spent.
        let limit = 100 + round;
        let generation = scene.status().generation;
        scene.write("new", &with(limit));
        std::fs::rename(scene.path("new"), scene.path("waterclock.toml")).unwrap();
        scene.server.running.reload();
        scene.generation(generation + 1).await;
        scene.write("new", "[policies.p]\nlimits = [\"0/s\"]\n");
        std::fs::rename(scene.path("new"), scene.path("waterclock.toml")).unwrap();
        scene.server.running.reload();
        scene.turned_down().await;
    }
    let all = 100 + rounds;
    let spent = async || seen.changing.load(Ordering::Relaxed) >= all;
    crate::patience::eventually("all is spent", spent).await;
    seen.done.store(true, Ordering::Relaxed);
    while let Some(ended) = clients.join_next().await {
        ended.expect("no request fails");
    }
    assert!(seen.requests.load(Ordering::Relaxed) > 100);
    assert_eq!(seen.steady.load(Ordering::Relaxed), 5);
    assert_eq!(seen.changing.load(Ordering::Relaxed), all);
}
