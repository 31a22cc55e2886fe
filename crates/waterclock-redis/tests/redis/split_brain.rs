//! A primary is cut off from its replica and from the sentinels, but not from a client: soon there are two primaries.

use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};
use waterclock::{Failure, Store, Verb};
use waterclock_conformance::real::{Proxy, RedisServer, Sentinel};
use waterclock_redis::RedisStoreBuilder;

use crate::faults::DENY;
use crate::oracle::{Call, Outcome, over_admission};
use crate::scene::{
    SECOND, Traffic, asking, bucket, millis, one, script_calls, still_bucket, store,
};

const CAPACITY: u64 = 100;
const RATE: u64 = 20;

/// What is granted comes from a server: nothing stands in for it.
fn denying(url: &str) -> RedisStoreBuilder {
    asking(url).serving(DENY).deadline(SECOND)
}

fn last_granted(calls: &[Call]) -> Duration {
    let granted = calls.iter().filter(|call| call.granted() > 0);
    granted.map(|call| call.returned).max().expect("something is granted")
}

/// Sentinels as a client sees them that is cut off together with the primary.
fn sentinels_behind_proxies(service: &Sentinel) -> (Vec<Proxy>, String) {
    let proxies: Vec<_> =
        service.sentinels().iter().map(|sentinel| Proxy::start(sentinel.port())).collect();
    let addrs: Vec<_> = proxies.iter().map(Proxy::addr).collect();
    let url = format!("redis-sentinel://{}/service-name", addrs.join(","));
    (proxies, url)
}

fn cut_off(proxies: &[Proxy]) {
    proxies.iter().for_each(Proxy::refuse);
    proxies.iter().for_each(Proxy::drop_all);
}

/// The sentinels tell the client of the failover, and it leaves. From isolation to failover it alone decides, on the old primary: that
/// is lost, one capacity at most. Both are used together for at most the second between two polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_was_replaced_is_left() {
    let service = Sentinel::start();
    let old = &service.servers()[0];
    let (policy, mut bound) = bucket(RATE, SECOND, CAPACITY);
    let stayed = store(denying(&service.url()), policy.clone()).await;
    let traffic = Traffic::start(&stayed, "hot", 4, millis(10));
    sleep(SECOND).await;
    service.isolate_first_primary();
    block_in_place(|| service.wait_for_failover());
    let failed_over = Instant::now();
    let came = store(denying(&service.url()), policy).await;
    let others = Traffic::start_on(&traffic.log, &came, "hot", 4, millis(10));
    let calls = left_soon(old, failed_over).await;
    service.rejoin_first_primary();
    let healed = Instant::now();
    while old.info("replication", "role").as_deref() != Some("slave") {
        assert!(healed.elapsed() < 40 * SECOND, "the old primary never becomes a replica");
        sleep(millis(100)).await;
    }
    println!("it became a replica {:?} after it was reachable again", healed.elapsed());
    sleep(SECOND).await;
    let mut all = traffic.stop().await;
    all.extend(others.stop().await.into_iter().skip(all.len()));
    assert_eq!(script_calls(old), calls, "one primary is used");
    bound.extra = CAPACITY + 2 * RATE;
    over_admission(&all, &bound).unwrap();
    let granted_late = all.iter().filter(|call| call.granted() > 0 && call.invoked > SECOND);
    assert!(granted_late.count() > 50, "the new primary decides");
}

/// Sentinels that do not permit to subscribe are asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_was_replaced_is_left_without_being_told() {
    let service = Sentinel::start();
    for sentinel in service.sentinels() {
        sentinel.command(&["ACL", "SETUSER", "default", "-subscribe"]).unwrap();
    }
    let store = store(denying(&service.url()), still_bucket(100_000)).await;
    let traffic = Traffic::start(&store, "hot", 4, millis(10));
    sleep(SECOND).await;
    service.isolate_first_primary();
    block_in_place(|| service.wait_for_failover());
    left_soon(&service.servers()[0], Instant::now()).await;
    assert!(traffic.stop().await.last().unwrap().is_from_store());
}

/// Checks that a server is used no more about a second after a failover, and returns how often it was.
async fn left_soon(old: &RedisServer, failed_over: Instant) -> u64 {
    let (mut calls, mut last_used) = (script_calls(old), Duration::ZERO);
    while failed_over.elapsed() < 4 * SECOND {
        sleep(millis(20)).await;
        let now = script_calls(old);
        if now > calls {
            (calls, last_used) = (now, failed_over.elapsed());
        }
    }
    println!("the old primary was left {last_used:?} after the failover");
    assert!(last_used < 2 * SECOND, "the old primary was used until {last_used:?}");
    calls
}

/// A client that sees no sentinel cannot know. What bounds it then is the primary's own `min-replicas-max-lag`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_without_replicas_stops_by_itself() {
    let lag = [("min-replicas-to-write", "1"), ("min-replicas-max-lag", "1")];
    let service = Sentinel::start_with(&lag, &[]);
    let (proxies, url) = sentinels_behind_proxies(&service);
    let store = store(denying(&url), still_bucket(100_000)).await;
    let traffic = Traffic::start(&store, "hot", 4, millis(10));
    sleep(SECOND).await;
    service.isolate_first_primary();
    cut_off(&proxies);
    let isolated = traffic.log.now();
    sleep(5 * SECOND).await;
    let calls = traffic.stop().await;
    // Redis counts the lag in whole seconds, once a second.
    let granted_for = last_granted(&calls) - isolated;
    println!("granted for {granted_for:?} after the isolation");
    assert!(granted_for < 3 * SECOND + millis(500), "{granted_for:?}");
    let is = |kind| calls.iter().any(|call| call.outcome == Outcome::Failed(kind));
    assert!(is(Failure::ReadOnly) && is(Failure::Open));
    // Another client asks once: nothing was charged.
    let direct = denying(&service.servers()[0].url()).start().unwrap();
    direct.set_policy(still_bucket(100_000)).await.unwrap();
    let error = direct.apply(Verb::Check, &[one("hot")]).await.unwrap_err();
    assert_eq!(error.failure(), Some(Failure::ReadOnly), "{error}");
    assert!(error.to_string().contains("NOREPLICAS") && !error.may_have_charged(), "{error}");
}

/// With `replicas(1)`, a primary that is cut off from its replica decides nothing from that moment on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unacknowledged_calls_are_failures() {
    let service = Sentinel::start();
    let (proxies, url) = sentinels_behind_proxies(&service);
    let alone = store(denying(&url).replicas(1), still_bucket(100_000)).await;
    let store = store(denying(&url).replicas(1), still_bucket(100_000)).await;
    let traffic = Traffic::start(&store, "hot", 4, millis(10));
    sleep(SECOND).await;
    service.isolate_first_primary();
    cut_off(&proxies);
    let isolated = traffic.log.now();
    // Behind others that wait for replicas, it might only be told that there was no answer.
    let error = alone.apply(Verb::Check, &[one("other")]).await.unwrap_err();
    assert_eq!(error.failure(), Some(Failure::Timeout), "{error}");
    assert!(error.to_string().contains("0 of 1 replicas acknowledged within 333 ms"), "{error}");
    assert!(error.may_have_charged());
    sleep(2 * SECOND).await;
    let is_granted = |call: &&Call| call.granted() > 0;
    let calls = traffic.log.calls();
    assert!(calls.iter().filter(is_granted).count() > 10);
    let late = calls.iter().filter(|call| call.invoked > isolated).filter(is_granted).count();
    assert_eq!(late, 0, "granted by a primary that is alone");
    // The old primary follows the new one, which has a replica then.
    block_in_place(|| service.wait_for_failover());
    proxies.iter().for_each(Proxy::pass);
    service.rejoin_first_primary();
    let healed = Instant::now();
    while !traffic.log.calls().last().is_some_and(Call::is_from_store) {
        assert!(healed.elapsed() < 60 * SECOND, "the new primary never decides");
        sleep(millis(20)).await;
    }
    println!("decides again {:?} after the partition ended", healed.elapsed());
    traffic.stop().await;
}
