//! Some of four nodes are cut off from Redis: packets are lost both ways, and connections stay open. What all nodes admit
//! together is within the bound that the guide publishes for the case, as told by their callers' logs.

mod namespace;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use waterclock::{
    Charge, FixedWindow, Gcra, LeakyBucket, Limit, Policy, RollingWindow, SlidingWindow, Source,
    Store,
};
use waterclock_conformance::real::{Proxy, RedisServer};
use waterclock_redis::{OnStoreError, RedisStore, RedisStoreBuilder, Serving};

use self::namespace::Address;
use crate::oracle::{Bound, Call, Log, Outcome, over_admission};
use crate::scene::{
    PATIENT, SECOND, millis, one, remaining, still_bucket, store, used_of_still_bucket,
};

const NODES: u64 = 4;
const KEYS: [&str; 2] = ["alice", "bob"];
/// Long enough for a busy machine, short beside an outage.
const DEADLINE: Duration = Duration::from_millis(250);
const LOCAL_FOR: Duration = Duration::from_millis(500);

/// A limit by each of several algorithms, with what any window may admit. The leaky bucket is large and slow: what is
/// wrong with its capacity shows however slow the machine is.
fn limits() -> [(Limit, Bound); 5] {
    let bound = |capacity, limit| Bound { capacity, limit, per: SECOND, extra: 0 };
    [
        (Gcra::new(40, SECOND).unwrap().into(), bound(40, 40)),
        (LeakyBucket::new(80, 1, millis(100)).unwrap().into(), bound(81, 10)),
        (FixedWindow::new(40, SECOND).unwrap().into(), bound(80, 40)),
        (SlidingWindow::new(40, SECOND).unwrap().into(), bound(80, 40)),
        (RollingWindow::new(40, SECOND).unwrap().into(), bound(40, 40)),
    ]
}

fn policies() -> impl Iterator<Item = (Policy, Bound)> {
    limits().into_iter().map(|(limit, bound)| {
        let name = limit.algorithm().name();
        (Policy::new(name, [limit]).unwrap(), bound)
    })
}

/// A network that can fail.
enum Wire {
    /// By a proxy that loses what it gets.
    Proxied(Proxy),
    /// By the kernel.
    Dropped(Address),
}

/// A node with a network of its own.
struct Node {
    wire: Wire,
    store: RedisStore,
}

impl Node {
    fn cut_off(&self) {
        match &self.wire {
            Wire::Proxied(proxy) => proxy.isolate_from(Ipv4Addr::LOCALHOST),
            Wire::Dropped(address) => address.cut_off(),
        }
    }

    fn rejoin(&self) {
        match &self.wire {
            Wire::Proxied(proxy) => proxy.rejoin(),
            Wire::Dropped(address) => address.rejoin(),
        }
    }

    /// Cuts the node off for a time, after a while.
    async fn lose(&self, after: Duration, time: Duration) {
        sleep(after).await;
        self.cut_off();
        sleep(time).await;
        self.rejoin();
    }
}

/// Four nodes on one Redis, with callers of every policy and key.
struct Scene {
    _server: RedisServer,
    nodes: Vec<Arc<Node>>,
    log: Log,
    /// For each policy and key, a log of each node.
    logs: Vec<Vec<Log>>,
    stop: Arc<AtomicBool>,
    callers: JoinSet<()>,
}

impl Scene {
    /// Each node is told that there are so many.
    async fn start(nodes: u64, serving: Serving) -> Self {
        Self::start_as(|builder| builder.nodes(nodes).serving(serving)).await
    }

    async fn start_as(settings: impl Fn(RedisStoreBuilder) -> RedisStoreBuilder) -> Self {
        let server = RedisServer::start();
        let wires = (0..NODES).map(|_| Wire::Proxied(Proxy::start(server.port()))).collect();
        Self::start_on(server, wires, settings).await
    }

    async fn start_on(
        server: RedisServer,
        wires: Vec<Wire>,
        settings: impl Fn(RedisStoreBuilder) -> RedisStoreBuilder,
    ) -> Self {
        let mut all = Vec::new();
        for wire in wires {
            let url = match &wire {
                Wire::Proxied(proxy) => proxy.url(),
                Wire::Dropped(address) => address.url(server.port()),
            };
            let builder = RedisStore::builder(&url).deadline(DEADLINE);
            let store = settings(builder).connect().await.unwrap();
            for (policy, _) in policies() {
                store.set_policy(policy).await.unwrap();
            }
            all.push(Arc::new(Node { wire, store }));
        }
        let stop = Arc::default();
        let mut scene = Self {
            _server: server,
            nodes: all,
            log: Log::new(),
            logs: Vec::new(),
            stop,
            callers: JoinSet::new(),
        };
        for (policy, _) in policies() {
            KEYS.into_iter().for_each(|key| scene.call(policy.name(), key));
        }
        // Until the limit is used up.
        sleep(millis(400)).await;
        scene
    }

    /// Starts a caller on each node.
    fn call(&mut self, policy: &str, key: &'static str) {
        let logs: Vec<Log> = self.nodes.iter().map(|_| self.log.beside()).collect();
        for (node, log) in self.nodes.iter().zip(&logs) {
            let (store, log, stop) = (node.store.clone(), log.clone(), Arc::clone(&self.stop));
            let policy = policy.to_owned();
            self.callers.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    log.check(&store, Charge::new(&policy, key.as_bytes(), 1)).await;
                    sleep(millis(10)).await;
                }
            });
        }
        self.logs.push(logs);
    }

    /// Cuts off the first k nodes, each for a random time.
    async fn lose_some(&self, k: usize) {
        let mut cuts = JoinSet::new();
        for node in &self.nodes[..k] {
            let (after, time) = (fastrand::u64(0..400), fastrand::u64(1_000..2_000));
            println!("one of {k} is cut off after {after} ms, for {time} ms");
            let node = Arc::clone(node);
            cuts.spawn(async move { node.lose(millis(after), millis(time)).await });
        }
        cuts.join_all().await;
        sleep(millis(600)).await;
    }

    async fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.callers.join_all().await;
        let seen = |logs: &Vec<Log>| logs.iter().map(Log::calls).collect();
        Seen(self.logs.iter().map(seen).collect())
    }
}

/// For each policy and key, what the callers of each node saw.
struct Seen(Vec<Vec<Vec<Call>>>);

impl Seen {
    fn calls(&self) -> impl Iterator<Item = &Call> {
        self.0.iter().flatten().flatten()
    }

    /// Whether each policy and key kept the bound of its case: its own, and what `extra` allows beyond that, given a
    /// node's share of the limit and the calls of each node.
    fn judge(&self, extra: impl Fn(&Limit, &Bound, &[Vec<Call>]) -> u64) -> Result<(), String> {
        let cases = policies().flat_map(|case| KEYS.map(|key| (case.clone(), key)));
        for (((policy, bound), key), nodes) in cases.zip(&self.0) {
            let share = policy.share(NODES).unwrap().policy;
            let bound = Bound { extra: extra(&share.limits()[0], &bound, nodes), ..bound };
            let (calls, name) = (nodes.concat(), policy.name());
            over_admission(&calls, &bound).map_err(|error| format!("{name} of {key}: {error}"))?;
            println!("{name} of {key}: {} of {} extra", least_extra(&calls, &bound), bound.extra);
        }
        Ok(())
    }
}

/// What was admitted beyond a limit's own bound.
fn least_extra(calls: &[Call], bound: &Bound) -> u64 {
    let extras: Vec<u64> = (0..bound.extra).collect();
    let is_exceeded =
        |extra: &u64| over_admission(calls, &Bound { extra: *extra, ..*bound }).is_err();
    extras.partition_point(is_exceeded) as u64
}

fn is_local(call: &&Call) -> bool {
    call.source() == Some(Source::Local)
}

/// For how long a node was without Redis, as its callers saw it; none if it never was.
fn outage(calls: &[Call]) -> Option<Duration> {
    let began = calls.iter().filter(is_local).map(|call| call.invoked).min()?;
    let ended = calls.iter().filter(is_local).map(|call| call.returned).max()?;
    Some(ended - began)
}

/// What the nodes that were cut off may admit: each its share of the time, and of no more than `most`.
fn shares(share: &Limit, nodes: &[Vec<Call>], most: Duration) -> u64 {
    let outages = nodes.iter().filter_map(|calls| outage(calls));
    outages.map(|outage| share.most_within(outage.min(most), 1).unwrap()).sum()
}

fn nothing(_: &Limit, _: &Bound, _: &[Vec<Call>]) -> u64 {
    0
}

fn of_some(share: &Limit, _: &Bound, nodes: &[Vec<Call>]) -> u64 {
    shares(share, nodes, Duration::MAX)
}

fn of_some_for_a_while(share: &Limit, _: &Bound, nodes: &[Vec<Call>]) -> u64 {
    shares(share, nodes, LOCAL_FOR)
}

/// Twice the capacity; a node that finds Redis later than the others is cut off alone for that time.
fn of_all(bound: &Bound, nodes: &[Vec<Call>], healed: Duration) -> u64 {
    let late = nodes.iter().filter_map(|calls| {
        let last = calls.iter().filter(is_local).map(|call| call.returned).max()?;
        let refilled = last.saturating_sub(healed).as_nanos() * u128::from(bound.limit);
        u64::try_from(refilled.div_ceil(u128::from(NODES) * bound.per.as_nanos())).ok()
    });
    2 * bound.capacity + late.sum::<u64>()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn some_nodes() {
    for k in 1..=3 {
        let scene = Scene::start(NODES, Serving::default()).await;
        scene.lose_some(k).await;
        let seen = scene.stop().await;
        seen.judge(of_some).unwrap();
        // Three shares are more than a busy machine leaves unused: the limit's own bound is exceeded.
        assert!(k < 3 || seen.judge(nothing).is_err(), "nodes that are cut off serve their share");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes() {
    let scene = Scene::start(NODES, Serving::default()).await;
    scene.nodes.iter().for_each(|node| node.cut_off());
    sleep(2 * SECOND).await;
    let healed = scene.log.now();
    scene.nodes.iter().for_each(|node| node.rejoin());
    sleep(SECOND).await;
    let seen = scene.stop().await;
    assert!(seen.calls().any(|call| is_local(&call) && call.granted() > 0));
    seen.judge(|_, bound, nodes| of_all(bound, nodes, healed)).unwrap();
}

/// Three nodes, cut off again and again.
async fn come_and_go(serving: Serving) -> Seen {
    let scene = Scene::start(NODES, serving).await;
    for _ in 0..3 {
        scene.lose_some(3).await;
    }
    scene.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn some_nodes_for_a_while() {
    let seen = come_and_go(Serving::default().with_local_for(Some(LOCAL_FOR))).await;
    assert!(seen.calls().any(|call| is_local(&call) && call.granted() > 0));
    assert!(seen.calls().any(|call| matches!(call.outcome, Outcome::Failed(_))));
    seen.judge(of_some_for_a_while).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn some_nodes_that_deny() {
    let scene = Scene::start(NODES, Serving::new(OnStoreError::Deny)).await;
    scene.lose_some(3).await;
    let seen = scene.stop().await;
    assert!(seen.calls().any(|call| matches!(call.outcome, Outcome::Failed(_))));
    seen.judge(nothing).unwrap();
}

/// A planted bug: each node believes that it is the only one, and counts no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_serves_the_whole_limit_is_caught() {
    let scene = Scene::start(1, Serving::default()).await;
    scene.lose_some(3).await;
    scene.stop().await.judge(of_some).expect_err("four limits for one");
}

/// Nodes that nobody has told how many they are, but that have counted each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_count_each_other() {
    let scene = Scene::start_as(|builder| builder.announce(true)).await;
    let have_counted = || scene.nodes.iter().all(|node| node.store.nodes_alive() == Some(NODES));
    let start = Instant::now();
    while !have_counted() {
        assert!(start.elapsed() < 12 * PATIENT);
        sleep(millis(50)).await;
    }
    scene.lose_some(3).await;
    scene.stop().await.judge(of_some).unwrap();
}

/// A planted bug: the share is served for as long as the outage lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_serves_for_too_long_is_caught() {
    let seen = come_and_go(Serving::default()).await;
    seen.judge(of_some_for_a_while).expect_err("more than half a second's share");
}

/// When the nodes are back, Redis is charged for every unit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn afterwards_the_server_is_charged() {
    let server = RedisServer::start();
    let log = Log::new();
    let mut nodes = Vec::new();
    for deadline in [SECOND, SECOND, PATIENT, PATIENT] {
        let proxy = Proxy::start(server.port());
        let builder = RedisStore::builder(&proxy.url()).nodes(NODES).deadline(deadline);
        let store = store(builder, still_bucket(1_000)).await;
        nodes.push(Node { wire: Wire::Proxied(proxy), store });
    }
    nodes[..2].iter().for_each(Node::cut_off);
    for _ in 0..20 {
        for node in &nodes {
            log.check(&node.store, one("key")).await;
        }
    }
    let granted: u64 = log.calls().iter().map(Call::granted).sum();
    let local: u64 = log.calls().iter().filter(is_local).map(Call::granted).sum();
    assert_eq!((granted, local), (80, 40));
    assert_eq!(used_of_still_bucket(&server), 40);
    nodes.iter().for_each(|node| node.rejoin());
    let start = Instant::now();
    while used_of_still_bucket(&server) < 80 {
        assert!(start.elapsed() < 2 * PATIENT, "{} used", used_of_still_bucket(&server));
        for node in &nodes {
            // Any answer of Redis brings the rest along.
            remaining(&node.store, "key").await;
        }
        sleep(millis(20)).await;
    }
    sleep(millis(200)).await;
    assert_eq!(used_of_still_bucket(&server), 80, "and no more");
}
