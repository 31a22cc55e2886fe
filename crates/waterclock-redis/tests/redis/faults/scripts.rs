//! Redis forgets its scripts, again and again.

use tokio::time::sleep;
use waterclock::{FixedWindow, Policy, Source};
use waterclock_conformance::real::RedisServer;

use crate::oracle::{Call, conservation, latencies};
use crate::scene::{
    HOUR, PATIENT, Traffic, asking, millis, still_bucket, store, used_of_still_bucket,
};

const CAPACITY: u64 = 2_000;

async fn flushed_all_the_time(server: &RedisServer, policy: Policy) -> Vec<Call> {
    let store = store(asking(&server.url()).deadline(PATIENT), policy).await;
    let traffic = Traffic::start(&store, "hot", 16, millis(2));
    let mut connection = server.connect().unwrap();
    for _ in 0..15 {
        sleep(millis(100)).await;
        connection.command(&["SCRIPT", "FLUSH"]).unwrap().unwrap();
    }
    let calls = traffic.stop().await;
    let authoritative = |call: &Call| call.source() == Some(Source::Authoritative);
    assert!(calls.iter().all(authoritative), "{:?}", calls.iter().find(|c| !authoritative(c)));
    // A slow machine may not have asked for all there is.
    let (granted, asked) = (calls.iter().map(Call::granted).sum::<u64>(), calls.len() as u64);
    assert_eq!(granted, CAPACITY.min(asked), "of {asked} calls");
    println!("SCRIPT FLUSH every 100 ms: {:?}, all authoritative", latencies(&calls));
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_short_script_is_sent_again() {
    let server = RedisServer::start();
    let calls = flushed_all_the_time(&server, still_bucket(CAPACITY)).await;
    conservation(&calls, used_of_still_bucket(&server)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_long_script_is_sent_again() {
    let server = RedisServer::start();
    let window = FixedWindow::new(CAPACITY, HOUR).unwrap();
    flushed_all_the_time(&server, Policy::new("p", [window]).unwrap()).await;
}
