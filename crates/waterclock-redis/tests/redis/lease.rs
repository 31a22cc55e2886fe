//! Lease mode: hot keys are spent without asking, within the bound that comes with it.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use waterclock::{Policy, Source, Store};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::{Lease, RedisStore, Serving};

use crate::oracle::{Bound, Call, Log, over_admission};
use crate::scene::{
    PATIENT, SECOND, Traffic, asking, bucket, check, millis, one, remaining, script_calls,
    still_bucket, store, units, used_of_still_bucket,
};

async fn leasing(server: &RedisServer, policy: Policy, size: u64, ttl: Duration) -> RedisStore {
    let serving = Serving::default().with_lease(Some(Lease::new(size, ttl)));
    let builder = RedisStore::builder(&server.url()).deadline(PATIENT).serving(serving);
    store(builder, policy).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_does_not_answer_what_fills() {
    let server = RedisServer::start();
    let policy = still_bucket(100);
    let store = leasing(&server, policy.clone(), 50, PATIENT).await;
    for _ in 0..3 {
        check(&store, one("hot")).await;
    }
    assert_eq!(store.fill(&policy, &one("hot")).await, Ok(1.into()));
}

/// Two nodes on one hot key. Beyond the limit's bound there is what both may hold at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_stay_within_the_bound() {
    let server = RedisServer::start();
    let (policy, bound) = bucket(200, SECOND, 50);
    let (log, mut traffic) = (Log::new(), Vec::new());
    for _ in 0..2 {
        let store = leasing(&server, policy.clone(), 10, SECOND).await;
        traffic.push(Traffic::start_on(&log, &store, "hot", 8, millis(2)));
    }
    let start = Instant::now();
    sleep(2 * SECOND).await;
    let passed = start.elapsed();
    for traffic in traffic {
        traffic.stop().await;
    }
    let calls = log.calls();
    over_admission(&calls, &Bound { extra: 2 * 10, ..bound }).unwrap();
    let granted: u64 = calls.iter().map(Call::granted).sum();
    let due = bound.capacity + 200 * u64::try_from(passed.as_millis()).unwrap() / 1_000;
    // Units still leased at the end were granted to no caller.
    assert!(granted + 2 * 10 + 5 >= due, "{granted} of {due}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_is_asked_once_per_lease() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(10_000), 50, PATIENT).await;
    let before = script_calls(&server);
    let mut leased = 0;
    for _ in 0..2_000 {
        leased += u64::from(check(&store, one("hot")).await.source == Source::Lease);
    }
    let asked = script_calls(&server) - before;
    // One for the first, which is cold, then one for every 51.
    assert_eq!(asked, 1 + 1_999_u64.div_ceil(51));
    // The call that takes a lease out was decided by Redis.
    assert_eq!(leased + asked, 2_000);
    println!("lease of 50: {asked} calls of Redis for 2000 decisions");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cold_key_is_asked_for_once_and_leased_nothing() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(100), 10, SECOND).await;
    let before = script_calls(&server);
    for key in 0..100 {
        let answer = check(&store, one(&format!("key {key}"))).await;
        assert_eq!(answer.source, Source::Authoritative);
    }
    assert_eq!(script_calls(&server) - before, 100);
    assert_eq!(remaining(&store, "key 7").await, 99);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_spent_comes_back() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(100), 30, millis(200)).await;
    for _ in 0..3 {
        check(&store, one("key")).await;
    }
    assert_eq!(used_of_still_bucket(&server), 1 + 1 + 30);
    let start = Instant::now();
    while used_of_still_bucket(&server) != 3 {
        assert!(start.elapsed() < SECOND, "{} are used", used_of_still_bucket(&server));
        sleep(millis(10)).await;
    }
    println!("a lease of 200 ms is returned after {:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_returned_on_shutdown() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(100), 30, PATIENT).await;
    for _ in 0..3 {
        check(&store, one("key")).await;
    }
    store.close().await;
    assert_eq!(used_of_still_bucket(&server), 3);
}

/// A key that is asked for steadily, but not so often that its leases are spent in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_run_out_in_use_come_back_too() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(1_000), 20, millis(60)).await;
    for _ in 0..40 {
        check(&store, one("key")).await;
        sleep(millis(15)).await;
    }
    sleep(millis(200)).await;
    assert_eq!(used_of_still_bucket(&server), 40);
}

/// A refused check that costs more than a lease takes nothing out that others could use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_cost_takes_no_large_lease() {
    let server = RedisServer::start();
    let node = leasing(&server, still_bucket(100), 10, PATIENT).await;
    let other = store(asking(&server.url()).deadline(PATIENT), still_bucket(100)).await;
    for _ in 0..3 {
        check(&node, one("key")).await;
    }
    for _ in 0..3 {
        assert!(!check(&node, units("key", 98)).await.decision.is_allowed());
    }
    assert!(check(&other, units("key", 100 - 3 - 10)).await.decision.is_allowed());
}

/// An exhausted hot key is not asked for before it can pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_hot_key_is_not_asked_for() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(20), 10, PATIENT).await;
    let granted = async {
        let mut granted = 0;
        for _ in 0..25 {
            granted += check(&store, one("key")).await.decision.granted();
        }
        granted
    };
    assert_eq!(granted.await, 20);
    let before = script_calls(&server);
    for _ in 0..100 {
        assert_eq!(check(&store, one("key")).await.source, Source::DeniedCache);
    }
    assert_eq!(script_calls(&server), before);
}

/// Without Redis a lease is spent to its end, then the node's share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_costs_the_lease_and_the_share() {
    let server = RedisServer::start();
    let store = leasing(&server, still_bucket(20), 10, PATIENT).await;
    for _ in 0..3 {
        check(&store, one("key")).await;
    }
    server.kill();
    let mut by = std::collections::HashMap::new();
    for _ in 0..100 {
        let answer = check(&store, one("key")).await;
        *by.entry(answer.source.name()).or_insert(0) += answer.decision.granted();
    }
    assert_eq!((by["lease"], by["local"]), (9, 20), "{by:?}");
}
