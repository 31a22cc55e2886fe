//! Redis stops where it stands: it accepts connections and answers nothing.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use waterclock_conformance::real::RedisServer;

use crate::oracle::{answered_in_time, latencies, over_admission, recovery};
use crate::scene::{DEADLINE, SECOND, Traffic, asking, bucket, millis, store, until_degraded};

async fn stopped_for(time: Duration) {
    let server = RedisServer::start();
    let (policy, bound) = bucket(200, SECOND, 50);
    let store = store(asking(&server.url()), policy).await;
    let traffic = Traffic::start(&store, "hot", 32, millis(4));
    sleep(millis(300)).await;
    let fault = Instant::now();
    server.pause();
    let opened = until_degraded(&store, true, fault).await;
    sleep(time.saturating_sub(opened)).await;
    server.resume();
    let healed = traffic.log.now();
    let calls = traffic.stop_when_back(healed).await;
    over_admission(&calls, &bound.of_outage(&calls, healed)).unwrap();
    answered_in_time(&calls, DEADLINE).unwrap();
    let back = recovery(&calls, healed).unwrap();
    assert!(opened <= 2 * SECOND, "{opened:?}");
    // Connections that were given up are closed: the store's and the one that asks are left.
    let clients: u32 = server.info("clients", "connected_clients").unwrap().trim().parse().unwrap();
    assert!(clients <= 3, "{clients} connections");
    println!(
        "SIGSTOP for {time:?}: {:?}, breaker open after {opened:?}, authoritative after {back:?}",
        latencies(&calls)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_for_a_second() {
    stopped_for(SECOND).await;
}

/// Longer than anything a client waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_for_ten_seconds() {
    let hurry = std::env::var_os("WATERCLOCK_HURRY").is_some();
    stopped_for(if hurry { 3 * SECOND } else { 10 * SECOND }).await;
}
