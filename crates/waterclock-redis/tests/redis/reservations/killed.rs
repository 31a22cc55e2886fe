//! Processes that hold are killed: what they had committed counts, and what they held stays held.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use waterclock::{Concurrency, FixedWindow, Policy, Settlement, Store, StoreError};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::RedisStore;

use super::{commit, hold, hold_for};
use crate::scene::{HOUR, PATIENT, asking, remaining, units};

const PROCESSES: usize = 4;
const LIMIT: u64 = 1_000_000;
const ESTIMATE: u64 = 10;
const SLOTS: u64 = 5;
const LEASE: Duration = Duration::from_millis(1_500);

async fn store(url: &str) -> RedisStore {
    let store = asking(url).deadline(PATIENT).connect().await.unwrap();
    let window = FixedWindow::new(LIMIT, HOUR).unwrap();
    store.set_policy(Policy::new("p", [window]).unwrap()).await.unwrap();
    let slots = Concurrency::new(SLOTS, LEASE).unwrap();
    store.set_policy(Policy::new("slots", [slots]).unwrap()).await.unwrap();
    store
}

/// One of the processes; started by a test below, with its address and name in the environment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is started by another test"]
async fn holder() {
    let url = std::env::var("WATERCLOCK_TEST_REDIS").expect("started by the test");
    let name = std::env::var("WATERCLOCK_TEST_NAME").expect("started by the test");
    let store = store(&url).await;
    if name == "slots" {
        let all = waterclock::Charge { policy: "slots", ..units("key", SLOTS) };
        hold_for(&store, &name, &[all], 1_500).await.unwrap();
        println!("\nheld");
        std::future::pending::<()>().await;
    }
    for number in 0_u64.. {
        let id = format!("{name}-{number}");
        hold(&store, &id, "key", ESTIMATE).await.unwrap();
        println!("\nheld {number}");
        commit(&store, &id, number % 20).await.unwrap();
    }
}

fn start(url: &str, name: &str) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["reservations::killed::holder", "--exact", "--ignored", "--nocapture"])
        .env("WATERCLOCK_TEST_REDIS", url)
        .env("WATERCLOCK_TEST_NAME", name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    let lines = output.lines().map_while(Result::ok).filter(|line| line.starts_with("held"));
    (process, lines)
}

/// Kills a process once it has held so many, and tells how many that were at least.
fn kill_after(
    holds: usize,
    (mut process, mut lines): (Child, impl Iterator<Item = String>),
) -> u64 {
    let mut held = lines.by_ref().take(holds).count();
    process.kill().unwrap();
    process.wait().unwrap();
    held += lines.count();
    held as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_unit_is_accounted_for() {
    let server = RedisServer::start();
    let names: Vec<String> = (0..PROCESSES).map(|number| format!("process{number}")).collect();
    let processes: Vec<_> = names.iter().map(|name| start(&server.url(), name)).collect();
    let held: Vec<u64> = tokio::task::block_in_place(|| {
        let killed = processes.into_iter().zip([40, 80, 120, 200]);
        killed.map(|(process, holds)| kill_after(holds, process)).collect()
    });
    let store = store(&server.url()).await;
    let mut expected = 0;
    let mut orphans = 0;
    for (name, held) in names.iter().zip(held) {
        // The last reservation may exist although its caller never got an answer.
        for number in 0..held + 2 {
            let id = format!("{name}-{number}");
            match commit(&store, &id, ESTIMATE + 1).await {
                Ok(settled) => {
                    assert_eq!((settled.is_cancelled, settled.held[0].most()), (false, ESTIMATE));
                    orphans += u64::from(settled.used[0] != number % 20);
                    expected += settled.used[0].most();
                }
                Err(StoreError::UnknownReservation(_)) => assert!(number >= held, "{id} is lost"),
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert_eq!(LIMIT - remaining(&store, "key").await, expected, "{orphans} were not settled");
}

/// Held and never settled: charged at the estimate, and the id is free again when its time is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsettled_reservations_stay_charged() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    hold_for(&store, "short", &[units("key", 7)], 30).await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    let late = store.settle("short", Settlement::Cancel).await.unwrap_err();
    assert_eq!(late, StoreError::UnknownReservation("short".into()));
    assert_eq!(remaining(&store, "key").await, LIMIT - 7);
    hold_for(&store, "short", &[units("key", 5)], 1_000).await.unwrap();
    assert_eq!(remaining(&store, "key").await, LIMIT - 12);
    for key in crate::scene::keys(&server) {
        assert!(server.command(&[b"PTTL", &*key]).as_int() > 0, "a record without an end");
    }
}

/// A killed process that holds all places blocks others no longer than its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_of_the_dead_are_free_when_their_leases_end() {
    let server = RedisServer::start();
    let process = start(&server.url(), "slots");
    tokio::task::block_in_place(|| kill_after(1, process));
    let store = store(&server.url()).await;
    let place = waterclock::Charge { policy: "slots", ..units("key", 1) };
    let start = tokio::time::Instant::now();
    let first = hold_for(&store, "mine", std::slice::from_ref(&place), 1_000).await.unwrap();
    let retry = first.answers[0].decision.retry_after().unwrap();
    assert!(first.id.is_none() && retry <= LEASE, "{first:?}");
    while hold_for(&store, "mine", std::slice::from_ref(&place), 1_000).await.unwrap().id.is_none()
    {
        assert!(start.elapsed() < PATIENT);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(start.elapsed() + Duration::from_millis(1) >= retry, "{:?}", start.elapsed());
}
