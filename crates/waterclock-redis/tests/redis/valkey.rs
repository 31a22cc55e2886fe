//! The same on Valkey.

use tokio::time::Instant;
use waterclock::{Policy, Store};
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
