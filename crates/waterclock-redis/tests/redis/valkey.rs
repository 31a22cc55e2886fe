//! The same on Valkey.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use waterclock::{Gcra, Policy, Store};
use waterclock_conformance::Family;
use waterclock_conformance::real::{Cluster, Program, RedisServer};

use crate::faults::DENY;
use crate::scene::{PATIENT, asking};
use crate::{cluster, kinds, parity};

#[test]
fn decides_as_the_core_does() {
    for family in Family::ALL.into_iter().chain([Family::ErrorRate]) {
        let server = RedisServer::start_as(Program::Valkey, &[]);
        let redis = parity::Redis::new(&server);
        parity::same_as_core(&redis, family, parity::decisions() / 20);
    }
}

/// At its own time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_admits_and_refuses() {
    let server = RedisServer::start_as(Program::Valkey, &[]);
    let store = asking(&server.url()).serving(DENY).deadline(PATIENT).connect().await.unwrap();
    for kind in kinds::every_kind() {
        store.set_policy(Policy::new(kind.name, [kind.limit]).unwrap()).await.unwrap();
        let (start, mut seen) = (Instant::now(), [false; 2]);
        while seen != [true; 2] {
            assert!(start.elapsed() < PATIENT, "{}: {seen:?}", kind.name);
            // Nothing stands in for the server.
            let decision = store.check(kind.name, "alice").await.unwrap();
            seen[usize::from(decision.is_allowed())] = true;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_of_a_cluster_admits_its_capacity() {
    cluster::every_key_admits_its_capacity(&Cluster::start_as(Program::Valkey, 3, 0)).await;
}

/// A unit that returns within the millisecond in which it is charged is a record that expires at once, which Valkey would
/// not keep: then every check of that millisecond would be admitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rates_above_one_in_a_millisecond_hold() {
    const PER_SECOND: u64 = 2_000;
    let server = RedisServer::start_as(Program::Valkey, &[]);
    let store = asking(&server.url()).serving(DENY).deadline(PATIENT).connect().await.unwrap();
    let limit = Gcra::new(PER_SECOND, Duration::from_secs(1)).unwrap().with_capacity(1);
    store.set_policy(Policy::new("fast", [limit]).unwrap()).await.unwrap();
    for round in 0..50 {
        let (start, mut callers) = (Instant::now(), JoinSet::new());
        for _ in 0..64 {
            let store = store.clone();
            callers.spawn(async move { store.check("fast", "alice").await.unwrap().is_allowed() });
        }
        let admitted =
            callers.join_all().await.into_iter().filter(|is_allowed| *is_allowed).count();
        let elapsed = start.elapsed();
        let bound = 1 + elapsed.as_micros() * u128::from(PER_SECOND) / 1_000_000;
        assert!(admitted as u128 <= bound, "round {round}: {admitted} in {elapsed:?}");
    }
}
