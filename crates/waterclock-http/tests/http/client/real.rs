//! The client layers with real clients, servers and Redis.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::get as on_get;
use tokio::task::JoinSet;
use tower::{Layer, Service, ServiceExt, service_fn};
use waterclock::{
    Clock, FixedWindow, KeyedLimiter, Limit, MemoryStore, MonotonicClock, Policy, Timestamp,
};
use waterclock_conformance::real::RedisServer;
use waterclock_http::{HeaderStyle, Key, PaceLayer, Pacer, RateLimitLayer, RetryAfterLayer, Rule};
use waterclock_redis::RedisStore;

use super::stage::{client, get, serve};

const CALLERS: usize = 100;
const PER_SECOND: u64 = 50;
const CALLS_EACH: usize = 20;

type Instants = Arc<Mutex<Vec<(String, Timestamp)>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_callers_never_exceed_the_limit() {
    let clock = MonotonicClock::default();
    let (sent, arrived) = (Instants::default(), Instants::default());
    let note = move |instants: &Instants, path: String| {
        instants.lock().expect("no poison").push((path, clock.now()));
    };
    let handler = move |State(arrived): State<Instants>, uri: Uri| async move {
        note(&arrived, uri.path().to_owned());
    };
    let router = Router::new().fallback(on_get(handler)).with_state(Arc::clone(&arrived));
    let address = serve(router).await;

    // Between the pace and the client: when each request is sent.
    let (client, noted) = (client(), Arc::clone(&sent));
    let noting = service_fn(move |request: http::Request<_>| {
        note(&noted, request.uri().path().to_owned());
        client.clone().call(request)
    });
    let pace = PaceLayer::new(KeyedLimiter::new(Limit::per_second(PER_SECOND).with_capacity(1)));
    let pace = pace.within(Duration::from_secs(60)).layer(noting);
    let (start, mut calls) = (clock.now(), JoinSet::new());
    for caller in 0..CALLERS {
        calls.spawn(pace.clone().oneshot(get(&format!("http://{address}/{caller}"))));
    }
    for response in calls.join_all().await {
        assert!(response.expect("a response").status().is_success());
    }
    within_the_limit(start, &take(&sent));
    within_the_limit(start, &take(&arrived));
}

fn take(instants: &Instants) -> Vec<(String, Timestamp)> {
    let mut taken = std::mem::take(&mut *instants.lock().expect("no poison"));
    taken.sort_by_key(|(_, at)| *at);
    taken
}

/// A request may be delayed after it was let through, and arrive together with a later one: so it is counted from the start,
/// when the first could be let through at the earliest, how many were sent and have arrived by then.
fn within_the_limit(start: Timestamp, instants: &[(String, Timestamp)]) {
    assert_eq!(instants.len(), CALLERS);
    for (earlier, (path, at)) in (0..).zip(instants) {
        // The limiter's clock is another one, and may be ahead by less than a millisecond.
        let passed = at.since(start) + Duration::from_millis(1);
        let due = Duration::from_secs(earlier) / u32::try_from(PER_SECOND).expect("a few");
        assert!(passed >= due, "{path}: {earlier} others in {passed:?}");
    }
}

/// Two processes' worth of requests, one limit, and Redis between them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_share_a_redis_share_a_pace() {
    let redis = RedisServer::start();
    let (clock, mut calls) = (MonotonicClock::default(), JoinSet::new());
    let start = clock.now();
    for _ in 0..2 {
        let store = RedisStore::builder(&redis.url()).deadline(Duration::from_secs(10));
        let store = store.connect().await.expect("a store");
        let policy = Policy::new("outgoing", [Limit::per_second(20).with_capacity(1)]);
        let pacer = Pacer::shared(store, policy.expect("a policy")).await.expect("a pacer");
        let layer = PaceLayer::with_key(pacer, |_: &()| "api.example".to_owned());
        let sent = service_fn(|()| async { Ok::<_, Infallible>(()) });
        let pace = layer.within(Duration::from_secs(60)).layer(sent);
        for _ in 0..CALLS_EACH {
            calls.spawn(pace.clone().oneshot(()));
        }
    }
    for result in calls.join_all().await {
        assert_eq!(result, Ok(()));
    }
    // Forty at twenty per second are 1.95 s. Unshared, they would take half of that.
    assert!(clock.now().since(start) >= Duration::from_millis(1_950));
}

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
