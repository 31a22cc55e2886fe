//! Redis closes every connection of its clients, again and again.

use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use waterclock::{Failure, Source, Store, Verb};
use waterclock_conformance::real::RedisServer;

use super::DENY;
use crate::oracle::{Call, Log, Outcome, answered_in_time, conservation, latencies, recovery};
use crate::scene::{
    DEADLINE, PATIENT, Traffic, asking, check, millis, one, still_bucket, store,
    used_of_still_bucket,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_killed() {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).serving(DENY), still_bucket(100_000)).await;
    let traffic = Traffic::start(&store, "hot", 16, millis(2));
    for _ in 0..10 {
        sleep(millis(100)).await;
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    }
    let healed = traffic.log.now();
    let calls = traffic.stop_when_back(healed).await;
    answered_in_time(&calls, DEADLINE).unwrap();
    conservation(&calls, used_of_still_bucket(&server)).unwrap();
    let back = recovery(&calls, healed).unwrap();
    let failed = calls.iter().filter(|call| !call.is_from_store()).count();
    println!(
        "CLIENT KILL every 100 ms: {:?}, {failed} failed, authoritative after {back:?}",
        latencies(&calls)
    );
}

/// A caller finds a connection after a while, even if Redis closed the last one meanwhile: what
/// was never sent can be sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_while_idle() {
    let server = RedisServer::start();
    let builder = asking(&server.url()).deadline(PATIENT).serving(DENY);
    let (store, log) = (store(builder, still_bucket(100)).await, Log::new());
    for _ in 0..5 {
        let call = log.check(&store, one("key")).await;
        assert!(call.is_from_store(), "{call:?}");
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
        sleep(millis(20)).await;
    }
}

/// A store that is dropped takes its connections along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_leaves_nothing_behind() {
    let server = RedisServer::start();
    let clients = || server.info("clients", "connected_clients").unwrap();
    assert_eq!(clients().trim(), "1", "the connection that asks");
    let store = store(asking(&server.url()).deadline(PATIENT), still_bucket(100)).await;
    Traffic::start(&store, "hot", 8, millis(1)).stop().await;
    assert_eq!(clients().trim(), "2");
    drop(store);
    let start = Instant::now();
    while clients().trim() != "1" {
        assert!(start.elapsed() < PATIENT, "{} connections", clients());
        sleep(millis(5)).await;
    }
}

/// A runtime that ends takes along the calls that were made in it, and nothing else.
#[test]
fn a_runtime_ends_with_calls_under_way() {
    let server = RedisServer::start();
    let builder = asking(&server.url()).deadline(PATIENT).serving(DENY);
    let first = Runtime::new().unwrap();
    let store = first.block_on(store(builder, still_bucket(100)));
    assert!(first.block_on(Log::new().check(&store, one("key"))).is_from_store());
    server.pause();
    for _ in 0..400 {
        let store = store.clone();
        first.spawn(async move { Log::new().check(&store, one("key")).await });
    }
    std::thread::sleep(millis(200));
    drop(first);
    server.resume();
    // Its connection ended as well.
    let second = Runtime::new().unwrap();
    let checks = async || {
        for _ in 0..3 {
            let call = Log::new().check(&store, one("key")).await;
            if call.is_from_store() {
                return true;
            }
        }
        false
    };
    assert!(second.block_on(checks()));
}

/// A caller without time is not charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_time_to_send() {
    let server = RedisServer::start();
    let store =
        store(asking(&server.url()).deadline(PATIENT).serving(DENY), still_bucket(100)).await;
    assert_eq!(check(&store, one("key")).await.source, Source::Authoritative);
    for _ in 0..20 {
        let answers = store.apply_within(Duration::ZERO, Verb::Check, &[one("key")]).await;
        let error = answers.unwrap_err();
        assert_eq!((error.failure(), error.may_have_charged()), (Some(Failure::Timeout), false));
    }
    assert!(!store.is_degraded(), "the server was not asked");
    assert_eq!(check(&store, one("key")).await.source, Source::Authoritative);
    assert_eq!(used_of_still_bucket(&server), 2);
}

/// More callers at once than may wait: the rest is turned away at once, and all are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_callers_than_may_wait() {
    let server = RedisServer::start();
    // Time for all to arrive before the first gives up, which opens the breaker.
    let deadline = 2 * PATIENT;
    let builder = asking(&server.url()).serving(DENY).deadline(deadline);
    let (store, log) = (store(builder, still_bucket(100_000)).await, Log::new());
    log.check(&store, one("key")).await;
    server.pause();
    let mut callers = JoinSet::new();
    for _ in 0..20_000 {
        let (store, log) = (store.clone(), log.clone());
        callers.spawn(async move { log.check(&store, one("key")).await });
    }
    callers.join_all().await;
    server.resume();
    let calls = log.calls();
    let kinds = [Failure::Timeout, Failure::Open, Failure::Overloaded]
        .map(|kind| calls.iter().filter(|call| call.outcome == Outcome::Failed(kind)).count());
    assert_eq!(kinds.iter().sum::<usize>(), 20_000, "{kinds:?}");
    assert!(kinds[2] > 0, "{kinds:?}");
    // Those that are turned away do not wait for the server, and the others not much longer than they may.
    let turned_away = calls.iter().filter(|c| c.outcome == Outcome::Failed(Failure::Overloaded));
    assert!(turned_away.map(Call::took).max().is_some_and(|longest| longest < deadline));
    answered_in_time(&calls, deadline + PATIENT).unwrap();
    println!(
        "20000 callers at once, {deadline:?}: {:?}, {kinds:?} timed out, not asked, turned away",
        latencies(&calls)
    );
}
