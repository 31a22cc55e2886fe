//! A client with a `RetryAfterLayer` against a real server with a `RateLimitLayer`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get as on_get;
use tower::{Layer, ServiceExt};
use waterclock::{Clock, FixedWindow, MemoryStore, MonotonicClock, Policy};
use waterclock_http::{HeaderStyle, Key, RateLimitLayer, RetryAfterLayer, Rule};

use super::stage::{client, get, serve};

/// Three per second, and how many of them were served.
async fn limited(style: HeaderStyle) -> (String, Arc<AtomicUsize>) {
    let window = FixedWindow::new(3, Duration::from_secs(1)).expect("a window").with_name("second");
    let rule = Rule::new(Policy::new("api", [window]).expect("a policy")).headers(style);
    let layer = RateLimitLayer::builder(MemoryStore::default())
        .rule(rule)
        .key(Key::everyone())
        .build()
        .await
        .expect("a layer");
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    let handler = async move || {
        count.fetch_add(1, Ordering::Relaxed);
    };
    let router = Router::new().route("/", on_get(handler)).layer(layer);
    (format!("http://{}/", serve(router).await), served)
}

#[tokio::test]
async fn a_client_that_waits_when_nothing_is_left_is_never_refused() {
    let (uri, served) = limited(HeaderStyle::Ietf).await;
    let service = RetryAfterLayer::new().within(Duration::from_secs(60)).layer(client());
    let clock = MonotonicClock::default();
    let start = clock.now();
    for number in 0..8 {
        let response = service.clone().oneshot(get(&uri)).await.expect("a response");
        assert_eq!(response.status(), 200, "request {number}");
    }
    assert_eq!(served.load(Ordering::Relaxed), 8);
    // Eight are three windows: two whole ones lie between the first and the last.
    assert!(clock.now().since(start) >= Duration::from_secs(2));
}

#[tokio::test]
async fn a_refused_request_is_retried_and_served() {
    let (uri, served) = limited(HeaderStyle::RetryAfter).await;
    let service = RetryAfterLayer::new().retries(5).within(Duration::from_secs(60)).layer(client());
    for number in 0..8 {
        let response = service.clone().oneshot(get(&uri)).await.expect("a response");
        assert_eq!(response.status(), 200, "request {number}");
    }
    assert_eq!(served.load(Ordering::Relaxed), 8);
    // Without the layer, the same server does refuse.
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(client().oneshot(get(&uri)).await.expect("a response").status().as_u16());
    }
    assert!(statuses.contains(&429), "{statuses:?}");
}
