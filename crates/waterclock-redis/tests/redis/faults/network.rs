//! A bad network between the store and Redis.

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use waterclock::{Failure, FixedWindow, Policy, Store};
use waterclock_conformance::real::{Proxy, RedisServer};
use waterclock_redis::RedisStore;

use super::DENY;

use crate::oracle::{Call, Log, Outcome, answered_in_time, conservation, latencies, recovery};
use crate::scene::{
    DEADLINE, HOUR, PATIENT, SECOND, Traffic, asking, millis, one, still_bucket, store,
    used_of_still_bucket,
};

struct Scene {
    server: RedisServer,
    proxy: Proxy,
    store: RedisStore,
}

impl Scene {
    async fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        let store = store(asking(&proxy.url()).serving(DENY), still_bucket(100_000)).await;
        Self { server, proxy, store }
    }

    /// Breaks the network for a while, and returns what callers saw of it.
    async fn suffer(&self, name: &str, fault: impl FnOnce(&Proxy)) -> Vec<Call> {
        let traffic = Traffic::start(&self.store, "hot", 16, millis(2));
        sleep(millis(200)).await;
        fault(&self.proxy);
        sleep(millis(600)).await;
        self.proxy.pass();
        let healed = traffic.log.now();
        let calls = traffic.stop_when_back(healed).await;
        answered_in_time(&calls, DEADLINE).unwrap();
        conservation(&calls, used_of_still_bucket(&self.server)).unwrap();
        let back = recovery(&calls, healed).unwrap();
        println!("{name}: {:?}, authoritative after {back:?}", latencies(&calls));
        calls
    }
}

fn failures(calls: &[Call]) -> usize {
    calls.iter().filter(|call| !call.is_from_store()).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage() {
    let scene = Scene::new().await;
    let calls = scene.suffer("garbage", |proxy| proxy.garbage(*b"HTTP/1.1 400 Bad Request\r\n"));
    assert!(failures(&calls.await) > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_of_another_shape() {
    let scene = Scene::new().await;
    let calls = scene.suffer("replies of another shape", |proxy| proxy.garbage(*b"+OK\r\n"));
    assert!(failures(&calls.await) > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_replies() {
    let scene = Scene::new().await;
    let calls = scene.suffer("truncated replies", Proxy::truncate).await;
    assert!(failures(&calls) > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swallowed_replies() {
    let scene = Scene::new().await;
    let calls = scene.suffer("swallowed replies", Proxy::swallow_replies).await;
    assert!(failures(&calls) > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_later_than_the_deadline() {
    let scene = Scene::new().await;
    let calls = scene.suffer("replies 80 ms late", |proxy| proxy.delay(millis(80))).await;
    assert!(failures(&calls) > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_connections() {
    let scene = Scene::new().await;
    let calls = scene.suffer("refused connections", |proxy| {
        proxy.refuse();
        proxy.drop_all();
    });
    assert!(failures(&calls.await) > 0);
}

/// A connection that lost a reply loses no second one: the next call has a new connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mute_connection_is_given_up_at_once() {
    let scene = Scene::new().await;
    let log = Log::new();
    assert!(log.check(&scene.store, one("key")).await.is_from_store());
    scene.proxy.swallow_replies();
    let lost = log.check(&scene.store, one("key"));
    let heal = async {
        sleep(millis(20)).await;
        scene.proxy.pass();
    };
    let (lost, ()) = tokio::join!(lost, heal);
    assert_eq!(lost.outcome, Outcome::Failed(Failure::Timeout));
    // On a busy machine a new connection may take longer than one call waits, but hardly than five.
    let mut next = log.check(&scene.store, one("key")).await;
    for _ in 0..4 {
        if !next.is_from_store() {
            next = log.check(&scene.store, one("key")).await;
        }
    }
    assert!(next.is_from_store(), "{next:?}");
}

/// A connection that went mute is given up, also if no caller waits until the deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mute_connection_of_callers_that_leave() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let builder = asking(&proxy.url()).serving(DENY).deadline(SECOND);
    let (store, log) = (store(builder, still_bucket(100_000)).await, Log::new());
    assert!(log.check(&store, one("key")).await.is_from_store());
    let (before, start) = (proxy.connections(), Instant::now());
    proxy.swallow_replies();
    while proxy.connections() == before {
        assert!(start.elapsed() < 2 * PATIENT, "the connection is kept");
        _ = timeout(millis(10), log.check(&store, one("key"))).await;
    }
}

/// Replies that are slow, but in time, are no failures.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_within_the_deadline() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let builder = asking(&proxy.url()).serving(DENY).deadline(SECOND);
    let (store, log) = (store(builder, still_bucket(100)).await, Log::new());
    proxy.delay(millis(100));
    for _ in 0..5 {
        let call = log.check(&store, one("key")).await;
        assert!(call.is_from_store() && call.took() >= millis(100), "{call:?}");
    }
}

/// A caller that gave up while a connection was being made has sent nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_gives_up_before_sending_is_not_charged() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let store = asking(&proxy.url()).serving(DENY).start().unwrap();
    // A greeting takes several replies: longer than a call may.
    proxy.delay(millis(40));
    store.set_policy(still_bucket(100)).await.unwrap();
    let mut callers = JoinSet::new();
    for _ in 0..16 {
        let store = store.clone();
        callers.spawn(async move { Log::new().check(&store, one("key")).await });
    }
    let calls = callers.join_all().await;
    assert!(calls.iter().all(|call| call.outcome == Outcome::Failed(Failure::Timeout)));
    sleep(millis(400)).await;
    assert_eq!(used_of_still_bucket(&server), 0);
}

/// To connect takes longer than a call may; it is done all the same, for the calls after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_slower_than_the_deadline() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    proxy.delay(millis(25));
    let store = asking(&proxy.url()).serving(DENY).start().unwrap();
    store.set_policy(still_bucket(1_000)).await.unwrap();
    let traffic = Traffic::start(&store, "key", 1, millis(1));
    sleep(SECOND).await;
    let calls = traffic.stop().await;
    // Later calls may still be late: two replies at once take as long as a call may.
    let decided = calls.iter().find(|call| call.is_from_store()).expect("a connection");
    println!("a lone caller and a slow greeting: authoritative after {:?}", decided.returned);
}

/// Answers that are none: the connection is given up, and what they say is not interpreted.
async fn nonsense(policy: Policy, reply: &str) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let builder = asking(&proxy.url()).serving(DENY).deadline(PATIENT);
    let (store, log) = (store(builder, policy).await, Log::new());
    assert!(log.check(&store, one("key")).await.is_from_store());
    let before = proxy.connections();
    proxy.garbage(reply);
    let call = log.check(&store, one("key")).await;
    assert_eq!(call.outcome, Outcome::Failed(Failure::BadReply), "{reply:?}");
    proxy.pass();
    let call = log.check(&store, one("key")).await;
    assert!(call.is_from_store(), "{call:?}");
    assert_eq!(proxy.connections(), before + 1, "after {reply:?}");
}

/// A status, a number, numbers for records, no instant, an instant before time and one after it.
const NONSENSE: [&str; 6] = [
    "+OK\r\n",
    ":5\r\n",
    "*2\r\n:1700000000000000\r\n:6\r\n",
    "*2\r\n$1\r\n5\r\n$-1\r\n",
    "*2\r\n:-5\r\n$-1\r\n",
    "*2\r\n:9223372036854775807\r\n$-1\r\n",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_from_the_short_script() {
    for reply in NONSENSE {
        nonsense(still_bucket(100), reply).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_from_the_long_script() {
    let window = FixedWindow::new(100, HOUR).unwrap();
    for reply in NONSENSE {
        nonsense(Policy::new("p", [window.clone()]).unwrap(), reply).await;
    }
}
