//! A primary of a cluster that is silent in the middle of a call, and what becomes of reservations meanwhile.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use waterclock::{Charge, Cost, FixedWindow, Hold, OnExpiry, Policy, Settlement, Store, Verb};
use waterclock_conformance::real::Cluster;
use waterclock_redis::{OnStoreError, RedisStore, Serving};

use super::{commit, hold};
use crate::scene::{HOUR, PATIENT, SECOND, asking, keys, millis, one, remaining, store, units};

const LIMIT: u64 = 1_000_000;

fn window() -> Policy {
    Policy::new("p", [FixedWindow::new(LIMIT, HOUR).unwrap()]).unwrap()
}

/// A store that waits for a silent primary, of a cluster that does, too.
async fn patient(cluster: &Cluster) -> RedisStore {
    for node in cluster.nodes() {
        node.command(&["CONFIG", "SET", "cluster-node-timeout", "60000"]).unwrap();
    }
    store(asking(&cluster.url()).deadline(6 * PATIENT), window()).await
}

/// All that is stored about keys and reservations.
pub(super) fn stored(cluster: &Cluster) -> impl Iterator<Item = String> {
    cluster.nodes().iter().flat_map(|node| {
        let keys = node.command(&["KEYS", "wc{*"]);
        keys.as_array().iter().map(|key| key.as_text()).collect::<Vec<_>>()
    })
}

/// The record of the only key that is charged.
fn record_of_key(cluster: &Cluster) -> String {
    // Reservations end in `:held`, and what a slot notes of them has a colon, too.
    stored(cluster).find(|key| !key.contains(':')).expect("a record")
}

/// The primary of a key is silent while its reservation is settled: asked again, it is settled once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settling_goes_on_when_a_silent_primary_is_back() {
    let cluster = Cluster::start(3, 0);
    let deny = Serving::new(OnStoreError::Deny);
    let builder = asking(&cluster.url()).deadline(millis(100)).serving(deny);
    let store = store(builder, window()).await;
    // Below the estimate, and far above it.
    let plans: Vec<(String, u64)> =
        (0..20).map(|n| (format!("hold{n}"), [1, 500][n % 2])).collect();
    for (id, _) in &plans {
        while hold(&store, id, "key", 100).await.is_err() {}
    }
    let slot = cluster.slot_of(record_of_key(&cluster));
    let silent = cluster.primary_of_slot(slot);
    cluster.nodes()[silent].pause();
    let mut failed = 0;
    for (id, used) in &plans {
        failed += usize::from(commit(&store, id, *used).await.is_err());
    }
    cluster.nodes()[silent].resume();
    for (id, used) in &plans {
        let start = Instant::now();
        // The same numbers: a caller that got no answer asks again.
        while commit(&store, id, *used).await.is_err() {
            assert!(start.elapsed() < 2 * PATIENT, "{id} is stuck");
            sleep(millis(20)).await;
        }
    }
    assert!(failed > 0, "the primary was not silent");
    let expected: u64 = plans.iter().map(|(_, used)| used).sum();
    let start = Instant::now();
    let left = loop {
        let key = Charge::new("p", b"key", 0);
        match store.apply(Verb::Peek, &[key]).await {
            Ok(answers) => break answers[0].decision.remaining().unwrap(),
            Err(error) => assert!(start.elapsed() < PATIENT, "{error}"),
        }
    };
    assert_eq!(LIMIT - left, expected);
}

/// The primary of a key is silent until what was reserved of it has been given back. What was used is charged all the
/// same: above an estimate that is kept, and all of one that is released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_settled_late_is_charged() {
    const TTL: Duration = Duration::from_secs(4);
    const USED: u64 = 30;
    for (on_expiry, estimate) in [(OnExpiry::Release, 60), (OnExpiry::Keep, 10)] {
        let cluster = Cluster::start(3, 0);
        let store = patient(&cluster).await;
        let owner = |key: String| cluster.primary_of_slot(cluster.slot_of(key));
        let mut number = 0;
        let (id, held) = loop {
            let id = format!("hold{number}");
            let (ttl, charges) = (Some(TTL), &[units("key", estimate)]);
            let hold = Hold { id: Some(&id), ttl, charges, on_expiry };
            assert!(store.reserve(&hold).await.unwrap().id.is_some());
            let reservation = stored(&cluster).find(|key| key.ends_with(":held")).unwrap();
            if owner(reservation) != owner(record_of_key(&cluster)) {
                break (id, Instant::now());
            }
            store.settle(&id, Settlement::Cancel).await.unwrap();
            cluster.nodes().iter().for_each(|node| _ = node.command(&["FLUSHALL"]).unwrap());
            number += 1;
        };
        let silent = &cluster.nodes()[owner(record_of_key(&cluster))];
        silent.pause();
        let (settled, ()) = tokio::join!(commit(&store, &id, USED), async {
            sleep((TTL + SECOND + millis(200)).saturating_sub(held.elapsed())).await;
            silent.resume();
        });
        assert_eq!(settled.unwrap().used, [Cost::from(USED)]);
        assert_eq!(remaining(&store, "key").await, LIMIT - USED, "{on_expiry:?}");
    }
}

/// A check that could not be noted is undone, also by a script that gives back something else before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_noted_is_undone_all_the_same() {
    let cluster = Cluster::start(3, 0);
    let store = patient(&cluster).await;
    // A key that is charged first, and one on another node that is charged last.
    let mut records: Vec<(u16, String)> = Vec::new();
    for number in 0..9 {
        let (key, before) = (format!("key{number}"), stored(&cluster).collect::<Vec<_>>());
        store.apply(Verb::Check, &[one(&key)]).await.unwrap();
        let record = stored(&cluster).find(|record| !before.contains(record)).unwrap();
        records.push((cluster.slot_of(record), key));
    }
    records.sort();
    let [(slot, first), .., (last_slot, last)] = &*records else { panic!("several keys") };
    let silent = cluster.primary_of_slot(*last_slot);
    assert_ne!(cluster.primary_of_slot(*slot), silent);
    // It refuses.
    store.apply(Verb::Check, &[units(last, LIMIT - 1)]).await.unwrap();
    let reserve = async |id: &str, ttl| {
        let (charges, on_expiry) = (&[one(first)], OnExpiry::Release);
        store.reserve(&Hold { id: Some(id), ttl: Some(ttl), charges, on_expiry }).await.unwrap()
    };
    for number in 0..255 {
        reserve(&format!("{number}"), HOUR).await;
    }
    reserve("soon", 3 * SECOND).await;
    cluster.nodes()[silent].pause();
    let both = [units(first, 100), one(last)];
    let (answers, ()) = tokio::join!(store.apply(Verb::Check, &both), async {
        sleep(SECOND).await;
        let primary = &cluster.nodes()[cluster.primary_of_slot(*slot)];
        let due = keys(primary).into_iter().find(|key| key.ends_with(b":due")).unwrap();
        // No more than 256, of 24 bytes and 28 for the limit.
        assert_eq!(primary.command(&[b"STRLEN", &*due]).as_int(), 256 * (24 + 28));
        sleep(3 * SECOND + millis(100)).await;
        cluster.nodes()[silent].resume();
    });
    assert!(answers.unwrap().iter().any(|answer| !answer.decision.is_allowed()));
    assert_eq!(remaining(&store, first).await, LIMIT - 1 - 255);
}
