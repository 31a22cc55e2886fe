//! Nodes announce themselves in Redis, and know how many there are.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use waterclock::{Source, Store};
use waterclock_conformance::real::{Cluster, Proxy, RedisServer};
use waterclock_redis::{RedisStore, RedisStoreBuilder};

use crate::scene::{PATIENT, asking, check, millis, one, still_bucket, store};

/// Longer than five epochs, on a busy machine.
const LONG: Duration = Duration::from_secs(120);
const SCRIPT: &str = include_str!("../../src/script/nodes.lua");
/// An epoch that hardly ends during a test.
const DAY: i64 = 86_400;

async fn node(builder: RedisStoreBuilder) -> RedisStore {
    store(builder.announce(true), still_bucket(100)).await
}

/// Waits until every node has counted so many.
async fn until_alive(nodes: &[RedisStore], expected: u64) {
    let start = Instant::now();
    loop {
        let alive: Vec<_> = nodes.iter().map(RedisStore::nodes_alive).collect();
        if alive.iter().all(|alive| *alive == Some(expected)) {
            return;
        }
        assert!(start.elapsed() < LONG, "{alive:?}, not {expected}");
        sleep(millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_come_and_go() {
    let server = RedisServer::start();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(node(asking(&server.url()).deadline(PATIENT)).await);
    }
    // A process that does not announce itself is none.
    let other = store(asking(&server.url()), still_bucket(100)).await;
    until_alive(&nodes, 3).await;
    assert_eq!(other.nodes_alive(), None);
    let record = server.command(&["GET", "wc:nodes"]).as_text();
    assert!(record.len() < 40, "{record}");
    assert!((1..=30_000).contains(&server.command(&["PTTL", "wc:nodes"]).as_int()));
    nodes.pop().unwrap().close().await;
    until_alive(&nodes, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_cluster() {
    let cluster = Cluster::start(3, 0);
    let nodes = [
        node(asking(&cluster.url()).deadline(PATIENT)).await,
        node(asking(&cluster.url()).deadline(PATIENT)).await,
    ];
    until_alive(&nodes, 2).await;
}

/// While Redis is unreachable the last number stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_number_stays() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let nodes = [
        node(asking(&server.url()).deadline(PATIENT)).await,
        node(asking(&proxy.url()).deadline(PATIENT)).await,
    ];
    until_alive(&nodes, 2).await;
    proxy.refuse();
    proxy.drop_all();
    until_alive(&nodes[..1], 1).await;
    assert_eq!(nodes[1].nodes_alive(), Some(2));
    proxy.pass();
    until_alive(&nodes, 2).await;
}

/// A server that loses its state counts all nodes again, and meanwhile none believes that it is the only one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_that_is_lost() {
    let server = RedisServer::start();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(node(asking(&server.url()).deadline(PATIENT)).await);
    }
    until_alive(&nodes, 3).await;
    let epoch = || server.command(&["TIME"]).as_array()[0].as_int() / 10;
    server.command(&["FLUSHALL"]).unwrap();
    let (next, start) = (epoch() + 1, Instant::now());
    loop {
        let alive: Vec<_> = nodes.iter().map(RedisStore::nodes_alive).collect();
        assert_eq!(alive, [Some(3); 3], "after {:?}", start.elapsed());
        let record = server.command(&["GETRANGE", "wc:nodes", "0", "-1"]).as_text();
        if record.starts_with(&format!("{next} 3 ")) {
            return;
        }
        assert!(start.elapsed() < LONG, "{record}");
        sleep(millis(100)).await;
    }
}

/// A node whose reply was lost does not know whether it was counted, and is not counted twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_counts_once() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let nodes = [node(asking(&proxy.url()).deadline(millis(300))).await];
    until_alive(&nodes, 1).await;
    let epoch = || server.command(&["TIME"]).as_array()[0].as_int() / 10;
    let (old, start) = (epoch(), Instant::now());
    while epoch() == old {
        sleep(millis(5)).await;
    }
    // The next call is the one that counts, and its reply is lost.
    let sent = proxy.round_trips();
    proxy.swallow_replies();
    while proxy.round_trips() == sent {
        assert!(start.elapsed() < LONG);
        sleep(millis(10)).await;
    }
    sleep(millis(50)).await;
    proxy.pass();
    let lost = Instant::now();
    while lost.elapsed() < millis(6_000) {
        let record = server.command(&["GET", "wc:nodes"]).as_text();
        assert!(["0", "1"].contains(&record.split(' ').nth(1).unwrap()), "{record}");
        sleep(millis(50)).await;
    }
    until_alive(&nodes, 1).await;
}

/// A user that may not count nodes may decide.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right() {
    let server = RedisServer::start();
    let rules = "ACL SETUSER guest reset on >sesame ~wc{* ~wc:policy:* +@all";
    server.command(&rules.split(' ').collect::<Vec<_>>()).unwrap();
    let url = format!("redis://guest:sesame@{}", server.addr());
    let builder = || asking(&url).announce(true).deadline(PATIENT);
    let warnings = builder().start().unwrap().probe().await.unwrap();
    let [warning] = &*warnings else { panic!("{warnings:?}") };
    assert!(warning.starts_with("cannot count the servers that share the store: "), "{warning}");
    assert!(warning.contains("the user lacks permission"), "{warning}");
    let store = store(builder(), still_bucket(100)).await;
    // However often it is refused, the server is well.
    for _ in 0..10 {
        assert_eq!(store.probe().await.unwrap().len(), 1);
        assert!(!store.is_degraded());
    }
    for _ in 0..30 {
        assert_eq!(check(&store, one("key")).await.source, Source::Authoritative);
    }
    assert_eq!((store.nodes_alive(), store.is_degraded()), (None, false));
    assert_eq!(server.command(&["EXISTS", "wc:nodes"]).as_int(), 0);
}

/// What the script replies: the epoch, and how many are alive.
fn run(server: &RedisServer, last: &str, how: &str) -> (i64, i64) {
    let day = DAY.to_string();
    let reply = server.command(&["EVAL", SCRIPT, "1", "nodes", last, &day, how]);
    let numbers = reply.as_array();
    (numbers[0].as_int(), numbers[1].as_int())
}

#[test]
fn a_node_is_counted_once_in_an_epoch() {
    let server = RedisServer::start();
    let (epoch, alive) = run(&server, "", "");
    assert_eq!(alive, 1);
    let (now, before) = (epoch.to_string(), (epoch - 1).to_string());
    let alive = |last: &str, how: &str| run(&server, last, how).1;
    assert_eq!(alive(&before, ""), 2, "another one");
    assert_eq!(alive(&now, ""), 2, "again");
    assert_eq!(alive("?", ""), 2, "perhaps again");
    assert_eq!(alive(&now, "leave"), 1);
    assert_eq!(alive(&before, "leave"), 1, "it was not counted yet");
}

#[test]
fn a_lost_record_is_begun_again() {
    let server = RedisServer::start();
    let (epoch, _) = run(&server, "", "");
    let now = epoch.to_string();
    for (last, counted) in [(&*now, "1"), ("?", "0"), ("", "1")] {
        server.command(&["DEL", "nodes"]).unwrap();
        assert_eq!(run(&server, last, "").1, 1, "never none");
        let record = server.command(&["GET", "nodes"]).as_text();
        assert_eq!(record, format!("{epoch} {counted} 0"), "{last:?}");
    }
}

#[test]
fn an_epoch_that_has_just_begun_counts_the_one_before() {
    let server = RedisServer::start();
    let (epoch, _) = run(&server, "", "");
    for (record, alive) in [
        (format!("{} 3 9", epoch - 1), 3),
        (format!("{} 3 9", epoch - 2), 1),
        // The clock has stepped back.
        (format!("{} 3 9", epoch + 1), 1),
        ("something else".to_owned(), 1),
    ] {
        server.command(&["SET", "nodes", &record]).unwrap();
        assert_eq!(run(&server, "", ""), (epoch, alive), "{record}");
    }
}
