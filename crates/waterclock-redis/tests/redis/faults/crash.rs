//! Redis is killed, and started again with nothing.

use tokio::time::{Instant, sleep};

use crate::oracle::{Bound, answered_in_time, latencies, over_admission, recovery};
use crate::scene::{DEADLINE, SECOND, Traffic, asking, bucket, millis, store, until_degraded};
use waterclock_conformance::real::RedisServer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_restarted() {
    let server = RedisServer::start();
    let (policy, bound) = bucket(200, SECOND, 50);
    let store = store(asking(&server.url()), policy).await;
    let traffic = Traffic::start(&store, "hot", 16, millis(2));
    sleep(millis(300)).await;
    let fault = Instant::now();
    server.kill();
    let opened = until_degraded(&store, true, fault).await;
    sleep(millis(500)).await;
    server.restart();
    let healed = traffic.log.now();
    let calls = traffic.stop_when_back(healed).await;
    // Its own share while Redis is away, and what Redis forgot.
    over_admission(&calls, &Bound { extra: 3 * bound.capacity, ..bound }).unwrap();
    answered_in_time(&calls, DEADLINE).unwrap();
    let back = recovery(&calls, healed).unwrap();
    assert!(opened <= 2 * SECOND, "{opened:?}");
    println!(
        "kill -9: {:?}, breaker open after {opened:?}, authoritative after {back:?}",
        latencies(&calls)
    );
}

/// The store notices that Redis is back, without any traffic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comes_back_without_traffic() {
    let server = RedisServer::start();
    let (policy, _) = bucket(200, SECOND, 50);
    let store = store(asking(&server.url()), policy).await;
    server.kill();
    let traffic = Traffic::start(&store, "hot", 8, millis(1));
    until_degraded(&store, true, Instant::now()).await;
    traffic.stop().await;
    server.restart();
    let back = until_degraded(&store, false, Instant::now()).await;
    assert!(back <= 2 * SECOND, "{back:?}");
    println!("kill -9 without traffic: breaker closed after {back:?}");
}
