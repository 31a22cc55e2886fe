//! A breaker that nodes share: what one reports opens it for all, and one probe is one.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use waterclock::{
    ErrorRate, MAX_LOG, ManualClock, MemoryStore, Outcome, Policy, Store, Timestamp, Verb,
};
use waterclock_conformance::real::RedisServer;

use crate::scene::{HOUR, PATIENT, asking, check, commands, keys, one, store, units};

const COOL_DOWN: Duration = Duration::from_millis(400);

/// Opens at half of four reports.
fn breaker() -> Policy {
    Policy::new("p", [ErrorRate::new(5_000, HOUR, 4, COOL_DOWN).unwrap()]).unwrap()
}

async fn report(store: &impl Store, outcome: Outcome, times: u64) {
    store.apply(Verb::Report(outcome), &[units("key", times)]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_reports_opens_it_for_all_and_one_of_them_probes() {
    let server = RedisServer::start();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(store(asking(&server.url()).deadline(PATIENT), breaker()).await);
    }
    report(&nodes[0], Outcome::Ok, 2).await;
    report(&nodes[1], Outcome::Error, 1).await;
    assert!(check(&nodes[2], one("key")).await.decision.is_allowed());
    report(&nodes[1], Outcome::Error, 1).await;
    for node in &nodes {
        assert!(!check(node, one("key")).await.decision.is_allowed());
    }
    for (outcome, closes) in [(Outcome::Error, false), (Outcome::Ok, true)] {
        sleep(COOL_DOWN).await;
        let mut callers = JoinSet::new();
        for node in nodes.iter().cycle().take(12) {
            let node = node.clone();
            callers.spawn(async move { check(&node, one("key")).await.decision.granted() });
        }
        assert_eq!(callers.join_all().await.into_iter().sum::<u64>(), 1, "one probe");
        report(&nodes[2], outcome, 1).await;
        assert_eq!(check(&nodes[0], one("key")).await.decision.is_allowed(), closes);
    }
    // Closed, it is fresh.
    assert_eq!(keys(&server).len(), 0);
}

/// As many reports as a log may have, and more, at once and one by one: as in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_reports_count_and_no_more() {
    let server = RedisServer::start();
    let policy = || {
        let all = ErrorRate::new(10_000, HOUR, MAX_LOG, COOL_DOWN).unwrap();
        Policy::new("p", [all]).unwrap()
    };
    let redis = store(asking(&server.url()).deadline(PATIENT), policy()).await;
    let clock = ManualClock::default();
    let memory = MemoryStore::new(16, clock.clone());
    memory.set_policy(policy()).await.unwrap();
    let steps = [
        (Outcome::Ok, 3),
        (Outcome::Error, 2),
        (Outcome::Ok, 1),
        (Outcome::Error, MAX_LOG - 4),
        (Outcome::Error, 1),
        (Outcome::Error, 1),
        (Outcome::Error, 1),
        (Outcome::Error, 1),
    ];
    let mut opened = Vec::new();
    for (number, (outcome, times)) in steps.into_iter().enumerate() {
        let now = Timestamp::from_micros(1_794_000_000_000_000 + number as u64);
        clock.set(now);
        let (verb, charges) = (Verb::Report(outcome), [units("key", times)]);
        let there = redis.apply_at(now, verb, &charges).await.unwrap();
        assert_eq!(there, memory.apply(verb, &charges).await.unwrap(), "step {number}");
        opened.push(!there[0].decision.is_allowed());
    }
    assert_eq!(opened.iter().position(|open| *open), Some(7), "when the last that was ok is gone");
}

/// Random reports of random costs around a full log, of breakers that open early, late or hardly ever: as in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_reports_at_once_are_as_many_one_by_one() {
    let server = RedisServer::start();
    let mut random = fastrand::Rng::with_seed(14);
    for round in 0..24 {
        let (threshold, least) = (random.u64(1..=10_000), random.u64(1..=MAX_LOG));
        let policy = || {
            let limit = ErrorRate::new(threshold, HOUR, least, COOL_DOWN).unwrap();
            Policy::new("p", [limit]).unwrap()
        };
        let prefix = format!("round{round}");
        let redis = store(asking(&server.url()).prefix(&prefix).deadline(PATIENT), policy()).await;
        let clock = ManualClock::default();
        let memory = MemoryStore::new(16, clock.clone());
        memory.set_policy(policy()).await.unwrap();
        let mut now_us = 1_794_000_000_000_000;
        for step in 0..24 {
            now_us += [0, 1, 200_000][random.usize(0..3)];
            let now = Timestamp::from_micros(now_us);
            clock.set(now);
            let outcome =
                if random.u64(0..10_000) < threshold { Outcome::Error } else { Outcome::Ok };
            let most = [4, 1_000, MAX_LOG][random.usize(0..3)];
            let (verb, charges) = (Verb::Report(outcome), [units("key", random.u64(1..=most))]);
            let there = redis.apply_at(now, verb, &charges).await.unwrap();
            let here = memory.apply(verb, &charges).await.unwrap();
            assert_eq!(there, here, "round {round}, step {step}: {outcome:?} {charges:?}");
        }
    }
}

/// What a full log forgets is dropped by the entry, not by the unit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_report_takes_few_commands() {
    let server = RedisServer::start();
    let limit = ErrorRate::new(10_000, HOUR, MAX_LOG, COOL_DOWN).unwrap();
    let policy = Policy::new("p", [limit]).unwrap();
    let redis = store(asking(&server.url()).deadline(PATIENT), policy).await;
    let before = commands(&server, &["getrange", "setrange"]);
    report(&redis, Outcome::Ok, MAX_LOG).await;
    report(&redis, Outcome::Error, MAX_LOG - 1).await;
    report(&redis, Outcome::Ok, MAX_LOG).await;
    assert!(check(&redis, one("key")).await.decision.is_allowed());
    let taken = commands(&server, &["getrange", "setrange"]) - before;
    assert!(taken < 100, "{taken} commands");
}
