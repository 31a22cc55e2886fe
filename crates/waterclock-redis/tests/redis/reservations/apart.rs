//! Reservations in a cluster: the record of one and those of its keys lie in different slots.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use waterclock::{
    Charge, Cost, Failure, FixedWindow, Hold, Mode, OnExpiry, Policy, Settlement, Store,
    StoreError, Timestamp, Verb,
};
use waterclock_conformance::real::Cluster;

use super::silent::stored;
use super::{commit, hold, hold_for};
use crate::scene::{HOUR, PATIENT, SECOND, asking, millis, one, remaining, store, units};

const LIMIT: u64 = 100;

fn window() -> Policy {
    Policy::new("p", [FixedWindow::new(LIMIT, HOUR).unwrap()]).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_and_settled_wherever_they_lie() {
    let cluster = Cluster::start(3, 0);
    let store = store(asking(&cluster.url()).deadline(PATIENT), window()).await;
    for number in 0..40 {
        let (id, key) = (format!("hold{number}"), format!("key{number}"));
        assert!(hold(&store, &id, &key, 60).await.unwrap().id.is_some());
        let again = hold(&store, &id, &key, 60).await.unwrap();
        assert_eq!(again.answers[0].decision.granted(), 60);
        assert!(hold(&store, &format!("more{number}"), &key, 60).await.unwrap().id.is_none());
        assert_eq!(remaining(&store, &key).await, 40);
        let settled = commit(&store, &id, 10).await.unwrap();
        assert_eq!(commit(&store, &id, 99).await.unwrap(), settled);
        assert_eq!(remaining(&store, &key).await, 90);
        // A refusal leaves its id free.
        assert!(hold(&store, &format!("more{number}"), &key, 60).await.unwrap().id.is_some());
    }
    let other = hold(&store, "hold1", "key2", 60).await.unwrap_err();
    assert!(matches!(other, StoreError::BadReservation(_)), "{other}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_several_slots_are_held_together_or_not_at_all() {
    let cluster = Cluster::start(3, 0);
    let store = store(asking(&cluster.url()).deadline(PATIENT), window()).await;
    let charge = |key: &'static str, cost: u64| Charge::new("p", key.as_bytes(), cost);
    let all = [charge("a", 60), charge("b", 30), charge("c", 10)];
    assert!(hold_for(&store, "all", &all, 60_000).await.unwrap().id.is_some());
    let refused = hold_for(&store, "again", &all, 60_000).await.unwrap();
    assert!(refused.id.is_none());
    let left = async |key| remaining(&store, key).await;
    assert_eq!((left("a").await, left("b").await, left("c").await), (40, 70, 90));
    store.settle("all", Settlement::Commit(&[0, 35, 10].map(Cost::from))).await.unwrap();
    assert_eq!((left("a").await, left("b").await, left("c").await), (100, 65, 90));
    store.settle("all", Settlement::Cancel).await.unwrap();
    assert_eq!((left("a").await, left("b").await, left("c").await), (100, 65, 90));
}

/// Callers stop in the middle of reserving, as if they crashed, and in the middle of settling. Others ask again with the
/// same ids and finish it: no id is stuck, and what is used in the end is what was settled, to the unit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_caller_leaves_in_the_middle_another_finishes() {
    const STOPPED: u64 = 200;
    let cluster = Cluster::start(3, 0);
    let limits = [FixedWindow::new(1_000_000, HOUR).unwrap()];
    let large = Policy::new("p", limits).unwrap();
    let builder = || asking(&cluster.url()).deadline(PATIENT);
    let (store, other) = (store(builder(), large.clone()).await, store(builder(), large).await);
    let charges = |number: u64| {
        let keys = [["a", "b", "c"], ["d", "e", "f"]][usize::try_from(number % 2).unwrap()];
        keys.map(|key| Charge::new("p", key.as_bytes(), 10))
    };
    // From now on the servers know the scripts. About as long as this takes, callers wait.
    let takes = |start: tokio::time::Instant| u64::try_from(start.elapsed().as_micros()).unwrap();
    let mut both = [0, 0];
    for number in 0..20 {
        let (id, start) = (format!("before{number}"), tokio::time::Instant::now());
        hold_for(&store, &id, &charges(number), 60_000).await.unwrap();
        let (held, start) = (takes(start), tokio::time::Instant::now());
        store.settle(&id, Settlement::Cancel).await.unwrap();
        both = [held, takes(start)];
    }
    let patience = |takes: u64| Duration::from_micros(fastrand::u64(..takes));
    let (mut left, mut number, mut answered) = (0, 0, HashMap::new());
    while left < STOPPED {
        assert!(number < 20 * STOPPED, "only {left} callers stopped in the middle");
        let (id, charges) = (format!("hold{number}"), charges(number));
        let held = timeout(patience(both[0]), hold_for(&store, &id, &charges, 60_000)).await;
        left += u64::from(held.is_err());
        if held.is_err() {
            // Whatever became of it, another node gets the same reservation.
            let again = hold_for(&other, &id, &charges, 60_000).await.unwrap();
            assert_eq!(again.answers[0].decision.granted(), 10, "{id}");
        }
        let used = [number % 7, 10 + number % 20, 0].map(Cost::from);
        let commit = store.settle(&id, Settlement::Commit(&used));
        let settled = timeout(patience(both[1]), commit).await;
        left += u64::from(settled.is_err());
        if let Ok(settled) = settled {
            answered.insert(id, settled.unwrap());
        }
        number += 1;
    }
    let mut used: HashMap<&[u8], u64> = HashMap::new();
    for number in 0..number {
        let id = format!("hold{number}");
        let settled =
            other.settle(&id, Settlement::Commit(&[3, 4, 5].map(Cost::from))).await.unwrap();
        assert!(answered.get(&id).is_none_or(|before| *before == settled), "{id}");
        for (charge, units) in charges(number).iter().zip(&settled.used) {
            *used.entry(charge.key).or_default() += units.most();
        }
    }
    for (key, used) in used {
        let key = std::str::from_utf8(key).unwrap();
        assert_eq!(1_000_000 - remaining(&store, key).await, used, "{key}");
    }
    println!("{left} of {} calls stopped in the middle", 2 * number);
}

/// Of several slots each holds all that is asked of it, or none does: not a part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_a_charge_is_not_held_beside_others() {
    let cluster = Cluster::start(3, 0);
    let partial = window().with_mode(Mode::Partial).unwrap();
    let store = store(asking(&cluster.url()).deadline(PATIENT), partial).await;
    for number in 0..10 {
        let (a, b) = (format!("a{number}"), format!("b{number}"));
        let charge =
            async |key: &str, cost: u64| hold(&store, &format!("{key}-{cost}"), key, cost).await;
        assert!(charge(&a, 97).await.unwrap().id.is_some());
        let both = [&a, &b].map(|key| Charge::new("p", key.as_bytes(), 5));
        let id = format!("both{number}");
        assert!(hold_for(&store, &id, &both, 60_000).await.unwrap().id.is_none());
        assert_eq!((remaining(&store, &a).await, remaining(&store, &b).await), (3, 100));
        // Alone, what fits is held.
        let part = charge(&a, 5).await.unwrap();
        assert_eq!((part.answers[0].decision.granted(), remaining(&store, &a).await), (3, 0));
    }
}

/// An id that is used again after its time is another reservation, and is charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_is_used_again_is_charged_again() {
    let cluster = Cluster::start(3, 0);
    let store = store(asking(&cluster.url()).deadline(PATIENT), window()).await;
    for number in 0..3 {
        let (id, key) = (format!("again{number}"), format!("key{number}"));
        let one = [Charge::new("p", key.as_bytes(), 10)];
        for settles in [false, true] {
            assert!(hold_for(&store, &id, &one, 1_000).await.unwrap().id.is_some());
            if settles {
                commit(&store, &id, 4).await.unwrap();
            }
            sleep(millis(1_050)).await;
        }
        assert!(hold_for(&store, &id, &one, 60_000).await.unwrap().id.is_some());
        assert_eq!(remaining(&store, &key).await, LIMIT - 10 - 4 - 10);
        commit(&store, &id, 30).await.unwrap();
        assert_eq!(remaining(&store, &key).await, LIMIT - 10 - 4 - 30);
    }
}

/// What is released is given back in every slot; what is settled, or kept, is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_released_is_given_back_in_every_slot() {
    const TTL: Duration = Duration::from_secs(4);
    let cluster = Cluster::start(3, 0);
    let store = store(asking(&cluster.url()).deadline(PATIENT), window()).await;
    let names = ["a", "b", "c"];
    let charges = |cost: u64| names.map(|key| Charge::new("p", key.as_bytes(), cost));
    for (id, cost, on_expiry) in [
        ("left", 40, OnExpiry::Release),
        ("settled", 20, OnExpiry::Release),
        ("kept", 10, OnExpiry::Keep),
    ] {
        let (ttl, charges) = (Some(TTL), &charges(cost));
        let hold = Hold { id: Some(id), ttl, charges, on_expiry };
        assert!(store.reserve(&hold).await.unwrap().id.is_some());
        let again = store.reserve(&hold).await.unwrap();
        assert_eq!(again.answers[0].decision.granted(), cost);
    }
    store.settle("settled", Settlement::Commit(&[1, 2, 30].map(Cost::from))).await.unwrap();
    let left = async || {
        let mut left = Vec::new();
        for key in names {
            left.push(remaining(&store, key).await);
        }
        left
    };
    assert_eq!(left().await, [100 - 51, 100 - 52, 100 - 80]);
    // A second later than it could be settled.
    sleep(TTL + SECOND + millis(100)).await;
    assert_eq!(left().await, [100 - 11, 100 - 12, 100 - 40]);
    let late = store.settle("left", Settlement::Cancel).await.unwrap_err();
    assert_eq!(late, StoreError::UnknownReservation("left".into()));
    assert_eq!(left().await, [100 - 11, 100 - 12, 100 - 40]);
}

/// The clock steps back after units were given back: they are not given back again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_released_is_not_given_back_again() {
    let cluster = Cluster::start(3, 0);
    let store = store(asking(&cluster.url()).deadline(PATIENT), window()).await;
    super::release::steps_back(&store, SECOND).await;
}

/// One of the keys has no room for more: nothing stays charged of the others, and the id is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_more_can_be_noted_nothing_is_held() {
    let cluster = Cluster::start(3, 0);
    let large = Policy::new("p", [FixedWindow::new(10_000, HOUR).unwrap()]).unwrap();
    let store = store(asking(&cluster.url()).deadline(PATIENT), large).await;
    let reserve = async |id: &str, charges: &[Charge<'_>]| {
        let (ttl, on_expiry) = (Some(HOUR), OnExpiry::Release);
        store.reserve(&Hold { id: Some(id), ttl, charges, on_expiry }).await
    };
    for number in 0..256 {
        assert!(reserve(&format!("{number}"), &[one("full")]).await.unwrap().id.is_some());
    }
    for number in 0..10 {
        let (id, key) = (format!("both{number}"), format!("key{number}"));
        let full = reserve(&id, &[one(&key), one("full")]).await.unwrap_err();
        assert_eq!((full.failure(), full.may_have_charged()), (Some(Failure::Overloaded), false));
        assert_eq!(remaining(&store, &key).await, 10_000);
        assert!(reserve(&id, &[units(&key, 7)]).await.unwrap().id.is_some());
        assert_eq!(remaining(&store, &key).await, 10_000 - 7);
    }
}

/// Another caller finishes what was begun: it is over when it would have been.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_finishes_lasts_no_longer() {
    const TTL: Duration = Duration::from_secs(60);
    let cluster = Cluster::start(3, 0);
    let store = store(asking(&cluster.url()).deadline(PATIENT), window()).await;
    let names = ["a", "b", "c", "d"];
    let start = Timestamp::from_micros(1_794_000_000_000_000);
    let each = names.map(one);
    store.apply_at(start, Verb::Check, &each).await.unwrap();
    let records = stored(&cluster).filter(|key| !key.contains(':'));
    let last = records.max_by_key(|key| cluster.slot_of(key)).unwrap();
    // The last slot cannot be charged.
    let owner = &cluster.nodes()[cluster.primary_of_slot(cluster.slot_of(&last))];
    owner.command(&["SET", &last, "something else"]).unwrap();
    let charges = &names.map(|name| units(name, 10));
    let (ttl, on_expiry) = (Some(TTL), OnExpiry::Release);
    let hold = Hold { id: Some("hold"), ttl, charges, on_expiry };
    let begun = store.reserve_at(start, &hold).await.unwrap_err();
    assert!(begun.may_have_charged(), "{begun}");
    owner.command(&["DEL", &last]).unwrap();
    let later = start.after(TTL - SECOND);
    // As it was begun, whatever it is to become when it expires.
    let again = Hold { on_expiry: OnExpiry::Keep, ..hold };
    let held = store.reserve_at(later, &again).await.unwrap();
    assert_eq!(held.expires_in, SECOND);
    let over = start.after(TTL + SECOND);
    let answers = store.apply_at(over, Verb::Peek, charges).await.unwrap();
    let left = answers.iter().map(|answer| answer.decision.remaining().unwrap());
    // One of each was checked, but of the last it was lost.
    assert_eq!(left.sum::<u64>(), 4 * LIMIT - 3);
}
