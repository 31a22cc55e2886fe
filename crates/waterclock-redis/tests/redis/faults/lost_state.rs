//! Redis forgets every record.

use tokio::time::sleep;
use waterclock::Source;
use waterclock_conformance::real::RedisServer;

use crate::oracle::{Bound, Call, false_refusal, over_admission};
use crate::scene::{PATIENT, SECOND, Traffic, asking, bucket, millis, store};

/// Each loss costs at most one limit, and no caller is refused because of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_twice() {
    let server = RedisServer::start();
    let (policy, bound) = bucket(100, SECOND, 50);
    let store = store(asking(&server.url()).deadline(PATIENT), policy).await;
    let traffic = Traffic::start(&store, "hot", 16, millis(2));
    for _ in 0..2 {
        sleep(millis(400)).await;
        server.command(&["FLUSHALL"]).unwrap();
    }
    sleep(millis(400)).await;
    let calls = traffic.stop().await;
    assert!(calls.iter().all(|call| call.source() == Some(Source::Authoritative)));
    over_admission(&calls, &Bound { extra: 2 * bound.capacity, ..bound }).unwrap();
    let complaint = over_admission(&calls, &bound).expect_err("what was lost was spent again");
    println!("FLUSHALL twice: {complaint}");
    false_refusal(&calls, &bound).unwrap();
    assert!(calls.iter().map(Call::granted).sum::<u64>() >= 3 * bound.capacity);
}
