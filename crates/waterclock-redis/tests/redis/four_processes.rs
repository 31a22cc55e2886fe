//! Four processes hammer one key: what they admit together is what one would, to the unit.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use waterclock::{Charge, Limit, Policy, RollingWindow, Source, Store, Verb};
use waterclock_conformance::real::{RedisServer, Reply};
use waterclock_redis::RedisStore;

const PROCESSES: usize = 4;
const CALLERS: usize = 8;
const TIME: Duration = Duration::from_secs(10);
/// 100 per second; at once, more than drains while processes start.
const UNIT_US: u64 = 10_000;
const CAPACITY: u64 = 500;
const ROLLING: u64 = 700;

async fn store(url: &str) -> RedisStore {
    // A check without an answer would be charged but not counted.
    let store = RedisStore::builder(url).deadline(TIME).denied_keys(0).connect().await.unwrap();
    let bucket: Policy = Limit::per_second(100).with_capacity(CAPACITY).with_name("bucket").into();
    store.set_policy(bucket).await.unwrap();
    let rolling = RollingWindow::new(ROLLING, Duration::from_secs(3_600)).unwrap();
    store.set_policy(rolling.with_name("rolling").into()).await.unwrap();
    store
}

async fn admitted(store: &RedisStore, policy: &str, cost: u64) -> u64 {
    let charge = Charge::new(policy, b"hot", cost);
    let answer = store.apply(Verb::Check, &[charge]).await.unwrap().remove(0);
    assert_eq!(answer.source, Source::Authoritative);
    answer.decision.granted()
}

/// One of the processes; started by the test below, which tells it where.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is started by another test"]
async fn hammer() {
    let url = std::env::var("WATERCLOCK_TEST_REDIS").expect("started by the test");
    let store = store(&url).await;
    let until = Instant::now() + TIME;
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let store = store.clone();
        callers.spawn(async move {
            let (mut bucket, mut rolling) = (0, 0);
            while Instant::now() < until {
                bucket += admitted(&store, "bucket", 1).await;
                rolling += admitted(&store, "rolling", 1).await;
            }
            (bucket, rolling)
        });
    }
    for (bucket, rolling) in callers.join_all().await {
        println!("\nadmitted {bucket} {rolling}");
    }
}

fn start_process(url: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["four_processes::hammer", "--exact", "--ignored", "--nocapture"])
        .env("WATERCLOCK_TEST_REDIS", url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What a process printed that it admitted.
fn read_process(process: Child) -> (u64, u64) {
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let counts = text.lines().filter_map(|line| {
        let (bucket, rolling) = line.strip_prefix("admitted ")?.split_once(' ')?;
        Some((bucket.parse::<u64>().ok()?, rolling.parse::<u64>().ok()?))
    });
    counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// The instant at which the bucket is full again, as Redis has it: the only record that is a number. Its last three
/// digits name the definition.
fn full_at(server: &RedisServer) -> u64 {
    let keys = server.command(&["KEYS", "wc{*"]);
    let record = |key: &Reply| match server.command(&["GET", &key.as_text()]) {
        Reply::Bulk(record) => Some(String::from_utf8(record).ok()?.parse::<u64>().ok()? / 1_000),
        _ => None,
    };
    keys.as_array().iter().find_map(record).expect("a record of the bucket")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn together_they_admit_the_bound_to_the_unit() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    assert_eq!(admitted(&store, "bucket", CAPACITY).await, CAPACITY);
    let first = full_at(&server) - CAPACITY * UNIT_US;
    let processes: Vec<Child> = (0..PROCESSES).map(|_| start_process(&server.url())).collect();
    let (bucket, rolling) = tokio::task::block_in_place(|| {
        let totals = processes.into_iter().map(read_process);
        totals.fold((CAPACITY, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    });
    assert_eq!(rolling, ROLLING);
    // Never idle from the first unit on, the bucket is full again after all units in a row.
    assert_eq!(full_at(&server), first + bucket * UNIT_US, "{bucket} units");
    // Callers stop between two units.
    let least = CAPACITY + 100 * TIME.as_secs() - 50;
    assert!(bucket >= least, "{bucket} of at least {least}");
    println!("{PROCESSES} processes admitted {bucket} and {rolling}");
}
