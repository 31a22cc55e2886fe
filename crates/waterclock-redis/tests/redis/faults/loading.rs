//! Redis reads its data back, and answers nothing else meanwhile.

use tokio::task::spawn_blocking;
use waterclock::Failure;
use waterclock_conformance::real::RedisServer;

use super::DENY;
use crate::oracle::{Outcome, answered_in_time, latencies, recovery};
use crate::scene::{DEADLINE, Traffic, asking, millis, still_bucket, store};

/// Keys that take so long to load; larger than what is loaded between two looks at the clients.
const KEYS: usize = 100;
const EACH_US: &str = "5000";

fn fill(server: &RedisServer) {
    let mut connection = server.connect().unwrap();
    // Nothing that can be compressed.
    let large: String = std::iter::repeat_with(fastrand::alphanumeric).take(4_000).collect();
    for i in 0..KEYS {
        connection.command(&["SET", &format!("filler{i}"), &large]).unwrap().unwrap();
    }
    connection.command(&["CONFIG", "SET", "key-load-delay", EACH_US]).unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_for_half_a_second() {
    let server = RedisServer::start_with(&[
        ("enable-debug-command", "yes"),
        ("loading-process-events-interval-bytes", "1024"),
    ]);
    fill(&server);
    let store = store(asking(&server.url()).serving(DENY), still_bucket(100_000)).await;
    let traffic = Traffic::start(&store, "hot", 16, millis(2));
    tokio::time::sleep(millis(200)).await;
    let mut connection = server.connect().unwrap();
    let loading = spawn_blocking(move || connection.command(&["DEBUG", "RELOAD"]));
    loading.await.unwrap().unwrap().unwrap();
    let healed = traffic.log.now();
    let calls = traffic.stop_when_back(healed).await;
    answered_in_time(&calls, DEADLINE).unwrap();
    // Few callers see the error: calls that did nothing are repeated, and soon the breaker opens.
    let kinds = [Failure::Loading, Failure::Open, Failure::Timeout]
        .map(|kind| calls.iter().filter(|call| call.outcome == Outcome::Failed(kind)).count());
    let failed = calls.iter().filter(|call| !call.is_from_store()).count();
    assert!(failed > 0 && failed == kinds.iter().sum(), "{failed}, {kinds:?}");
    let back = recovery(&calls, healed).unwrap();
    println!(
        "LOADING: {:?}, {kinds:?} heard of it, did not ask, timed out, authoritative after {back:?}",
        latencies(&calls)
    );
}
