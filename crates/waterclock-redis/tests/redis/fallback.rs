//! Without Redis each node serves its share, and makes good for it afterwards.

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use waterclock::{MinInterval, Mode, Policy, Source, Store};
use waterclock_conformance::real::{Proxy, RedisServer};
use waterclock_redis::{RedisStore, RedisStoreBuilder};

use crate::oracle::{Log, answered_in_time, over_admission};
use crate::scene::{
    DEADLINE, HOUR, PATIENT, SECOND, Traffic, asking, bucket, check, millis, one, remaining,
    still_bucket, store, units, until_degraded,
};

/// A node of so many, without a Redis.
async fn alone(nodes: u64, policy: Policy) -> RedisStore {
    let server = RedisServer::start();
    let store = asking(&server.url()).nodes(nodes).start().unwrap();
    store.set_policy(policy).await.unwrap();
    server.kill();
    store
}

/// What a node grants of the next calls for one unit.
async fn granted(store: &RedisStore, key: &str, calls: usize) -> u64 {
    let mut granted = 0;
    for _ in 0..calls {
        let answer = check(store, one(key)).await;
        assert_eq!(answer.source, Source::Local);
        granted += answer.decision.granted();
    }
    granted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_nodes_serve_a_quarter_each() {
    for _ in 0..4 {
        let node = alone(4, still_bucket(8)).await;
        assert_eq!(granted(&node, "key", 20).await, 2);
    }
}

/// Less than one unit per node: no node starts with one, and each gets its part over time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn less_than_a_unit_each_starts_empty() {
    // One unit every 50 ms for all, every 200 ms for each.
    let node = alone(4, bucket(2, millis(100), 2).0).await;
    let start = Instant::now();
    while granted(&node, "key", 1).await == 0 {
        assert!(start.elapsed() < SECOND);
        sleep(millis(1)).await;
    }
    assert!(start.elapsed() >= millis(198), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_empty_for_many_callers_at_once() {
    let node = alone(4, still_bucket(2)).await;
    until_known(&node).await;
    let mut callers = JoinSet::new();
    for caller in 0..2_000 {
        let node = node.clone();
        callers.spawn(async move { granted(&node, &format!("key {}", caller / 8), 1).await });
    }
    assert_eq!(callers.join_all().await.into_iter().sum::<u64>(), 0);
}

/// Until the breaker is open, so that calls do not wait for each other.
async fn until_known(node: &RedisStore) {
    for _ in 0..10 {
        check(node, one("any")).await;
    }
    until_degraded(node, true, Instant::now()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_is_kept_by_all_nodes_together() {
    let gap = Policy::new("p", [MinInterval::new(HOUR).unwrap()]).unwrap();
    assert_eq!(granted(&alone(4, gap.clone()).await, "key", 10).await, 0);
    assert_eq!(granted(&alone(1, gap).await, "key", 10).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_stays_nothing() {
    let node = alone(4, bucket(1, millis(5), 0).0).await;
    assert_eq!(granted(&node, "key", 10).await, 0);
    sleep(millis(50)).await;
    assert_eq!(granted(&node, "key", 10).await, 0);
}

/// A node behind a network that can fail.
struct Behind {
    _server: RedisServer,
    proxy: Proxy,
    store: RedisStore,
}

impl Behind {
    async fn new(builder: fn(&str) -> RedisStoreBuilder, policy: Policy) -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        let store = store(builder(&proxy.url()).deadline(PATIENT), policy).await;
        Self { _server: server, proxy, store }
    }

    fn fail(&self) {
        self.proxy.refuse();
        self.proxy.drop_all();
    }

    /// Until Redis decides again.
    async fn heal(&self) {
        self.proxy.pass();
        until_degraded(&self.store, false, Instant::now()).await;
    }

    /// Waits until so much of a key is left in Redis.
    async fn until_left(&self, key: &str, expected: u64) {
        let start = Instant::now();
        loop {
            let left = remaining(&self.store, key).await;
            if left == expected {
                return;
            }
            assert!(start.elapsed() < SECOND, "{left} left, not {expected}");
            sleep(millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_admitted_alone_is_charged_afterwards() {
    let scene = Behind::new(asking, still_bucket(10)).await;
    check(&scene.store, units("key", 2)).await;
    scene.fail();
    assert_eq!(granted(&scene.store, "key", 3).await, 3);
    scene.heal().await;
    // The first call that Redis decides brings the rest along.
    check(&scene.store, one("key")).await;
    scene.until_left("key", 10 - 2 - 3 - 1).await;
}

/// What was granted in part is owed as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_is_charged_afterwards() {
    let policy = still_bucket(10).with_mode(Mode::Partial).unwrap();
    let scene = Behind::new(asking, policy).await;
    scene.fail();
    let answer = check(&scene.store, units("key", 25)).await;
    assert_eq!((answer.source, answer.decision.granted()), (Source::Local, 10));
    scene.heal().await;
    check(&scene.store, one("other")).await;
    scene.until_left("key", 0).await;
}

/// The share is one for the whole outage, whatever else is answered meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_from_memory_does_not_renew_the_share() {
    let scene = Behind::new(RedisStore::builder, still_bucket(10)).await;
    check(&scene.store, units("refused", 10)).await;
    assert!(!check(&scene.store, one("refused")).await.decision.is_allowed());
    scene.fail();
    let mut admitted = 0;
    for _ in 0..30 {
        assert_eq!(check(&scene.store, one("refused")).await.source, Source::DeniedCache);
        sleep(millis(1)).await;
        admitted += granted(&scene.store, "key", 1).await;
    }
    assert_eq!(admitted, 10);
    scene.heal().await;
    check(&scene.store, one("other")).await;
    scene.until_left("key", 0).await;
}

/// What Redis had no room for is not forgotten: each return would be worth a share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coming_and_going_is_worth_one_share() {
    let scene = Behind::new(asking, still_bucket(10)).await;
    check(&scene.store, units("key", 10)).await;
    let mut admitted = 0;
    for _ in 0..3 {
        scene.fail();
        admitted += granted(&scene.store, "key", 15).await;
        scene.heal().await;
        check(&scene.store, one("key")).await;
        sleep(millis(50)).await;
    }
    assert_eq!(admitted, 10);
}

/// Four nodes through an outage: what they admit together is what is promised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_nodes_together_keep_the_promise() {
    let server = RedisServer::start();
    let (policy, bound) = bucket(40, SECOND, 40);
    let (log, mut traffic) = (Log::new(), Vec::new());
    for _ in 0..4 {
        let node = store(asking(&server.url()).nodes(4), policy.clone()).await;
        traffic.push(Traffic::start_on(&log, &node, "hot", 4, millis(4)));
    }
    sleep(millis(300)).await;
    server.pause();
    sleep(SECOND).await;
    server.resume();
    let healed = log.now();
    sleep(SECOND).await;
    for traffic in traffic {
        traffic.stop().await;
    }
    let calls = log.calls();
    over_admission(&calls, &bound.of_outage(&calls, healed)).unwrap();
    answered_in_time(&calls, DEADLINE).unwrap();
    assert!(calls.iter().any(|call| call.source() == Some(Source::Local) && call.granted() > 0));
}
