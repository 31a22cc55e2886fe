//! Real servers: a service for each connection, all of which count together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use waterclock::{Limit, MemoryStore, Policy, Store};
use waterclock_conformance::real::RedisServer;
use waterclock_http::{ClientIp, HeaderStyle, RateLimitLayer, Rule};
use waterclock_redis::RedisStore;

const CALLERS: usize = 1_500;

fn per_day(capacity: u64) -> Policy {
    Policy::new("api", [Limit::per_day(1).with_capacity(capacity).with_name("burst")])
        .expect("a valid policy")
}

/// Serves until the test ends.
async fn serve<S: Store + 'static>(
    store: S,
    policy: Policy,
    key: ClientIp,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let rule = Rule::new(policy).headers(HeaderStyle::Ietf);
    let limits = RateLimitLayer::builder(store).rule(rule).key(key).build_per_connection().await;
    let limits = limits.expect("a valid layer");
    let served = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&served);
    let app = Router::new().route(
        "/",
        get(move || async move { counter.fetch_add(1, Ordering::Relaxed).to_string() }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, limits.make_service(app)).await });
    (address, served)
}

async fn get_from(address: SocketAddr, forwarded: &[&str]) -> u16 {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::get(format!("http://{address}/"));
    let request = forwarded.iter().fold(request, |to, value| to.header("x-forwarded-for", *value));
    let response = client.request(request.body(Empty::<Bytes>::new()).expect("valid")).await;
    response.expect("an answer").status().as_u16()
}

/// Both ends of every connection are this process's, and many systems allow it 1 024 files at first.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("a process may raise its own limit");
}

/// Fifteen hundred at once, each on a connection of its own: exactly the capacity gets through.
async fn exactly_the_capacity<S: Store + 'static>(store: S, capacity: u64) {
    allow_many_files();
    let (address, served) = serve(store, per_day(capacity), ClientIp::default()).await;
    let mut callers = JoinSet::new();
    let start = Arc::new(Barrier::new(CALLERS));
    for _ in 0..CALLERS {
        let start = Arc::clone(&start);
        callers.spawn(async move {
            let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
            let request = Request::get(format!("http://{address}/")).body(Empty::new());
            start.wait().await;
            let response = client.request(request.expect("valid")).await.expect("an answer");
            match response.status().as_u16() {
                200 => 1,
                429 => {
                    assert!(response.headers().contains_key("retry-after"));
                    0
                }
                other => panic!("{other}"),
            }
        });
    }
    let admitted: u64 = callers.join_all().await.into_iter().sum();
    assert_eq!(admitted, capacity);
    assert_eq!(served.load(Ordering::Relaxed) as u64, capacity);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifteen_hundred_through_clones() {
    exactly_the_capacity(MemoryStore::default(), 701).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifteen_hundred_through_redis() {
    let redis = RedisServer::start();
    // However busy this machine is: it is Redis that decides.
    let store = RedisStore::builder(&redis.url()).deadline(Duration::from_secs(10)).start();
    let store = store.expect("a real Redis");
    exactly_the_capacity(store, 701).await;
}

/// Whatever headers a client sends, its address is that of the connection.
#[tokio::test]
async fn forged_headers_change_nothing() {
    let (address, _) = serve(MemoryStore::default(), per_day(1), ClientIp::default()).await;
    assert_eq!(get_from(address, &[]).await, 200);
    for forged in ["1.2.3.4", "1.2.3.4, 5.6.7.8", "::1", "127.0.0.2", "unknown", ""] {
        assert_eq!(get_from(address, &[forged]).await, 429, "{forged}");
    }
}

#[tokio::test]
async fn a_trusted_proxy_is_believed_about_the_last_hop() {
    let behind = ClientIp::behind(["127.0.0.0/8"]).expect("a valid network");
    let (address, _) = serve(MemoryStore::default(), per_day(1), behind).await;
    assert_eq!(get_from(address, &["203.0.113.7"]).await, 200);
    assert_eq!(get_from(address, &["6.6.6.6, 203.0.113.7"]).await, 429);
    assert_eq!(get_from(address, &["6.6.6.6", "203.0.113.7"]).await, 429);
    assert_eq!(get_from(address, &["203.0.113.8"]).await, 200);
    assert_eq!(get_from(address, &["2001:db8:0:1::1"]).await, 200);
    assert_eq!(get_from(address, &["2001:db8:0:1:2::9"]).await, 429);
}
