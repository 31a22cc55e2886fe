//! A real cluster: slots that move, a primary that dies, checks over keys of different slots.

use std::collections::HashMap;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use waterclock::{Charge, FixedWindow, Limit, Migration, MinInterval, Policy, Source, Store, Verb};
use waterclock_conformance::real::Cluster;
use waterclock_redis::RedisStore;

use crate::kinds::{Kind, UNITS, every_kind};
use crate::oracle::{Bound, Call, Log, over_admission};
use crate::scene::SECOND;

const HOUR: Duration = Duration::from_secs(3_600);

async fn store(cluster: &Cluster, policies: Vec<Policy>) -> RedisStore {
    // Room for a busy machine: what is tested here is not the deadline.
    let builder = RedisStore::builder(&cluster.url()).deadline(Duration::from_secs(5));
    let store = builder.denied_keys(0).connect().await.unwrap();
    for policy in policies {
        store.set_policy(policy).await.unwrap();
    }
    store
}

fn hourly(name: &str, limit: u64) -> Policy {
    Policy::new(name, [FixedWindow::new(limit, HOUR).unwrap()]).unwrap()
}

fn charge<'a>(policy: &'a str, key: &'a str, cost: u64) -> Charge<'a> {
    Charge::new(policy, key.as_bytes(), cost)
}

async fn admits(store: &RedisStore, charges: &[Charge<'_>]) -> bool {
    let answers = store.apply(Verb::Check, charges).await.unwrap();
    assert!(answers.iter().all(|answer| answer.source == Source::Authoritative));
    answers[0].decision.is_allowed()
}

async fn remaining(store: &RedisStore, policy: &str, key: &str) -> u64 {
    let answers = store.apply(Verb::Peek, &[charge(policy, key, 0)]).await.unwrap();
    answers[0].decision.remaining().unwrap()
}

/// The slot a key's record lies in, found by where it was written.
fn slot_of_only_key(cluster: &Cluster) -> u16 {
    let keys = cluster.nodes().iter().flat_map(|node| {
        let keys = node.command(&["KEYS", "wc{*"]);
        keys.as_array().iter().map(|key| key.as_text()).collect::<Vec<_>>()
    });
    cluster.slot_of(keys.into_iter().next().expect("a record"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_admits_its_capacity_wherever_it_lies() {
    every_key_admits_its_capacity(&Cluster::start(3, 0)).await;
}

pub(crate) async fn every_key_admits_its_capacity(cluster: &Cluster) {
    let store =
        store(cluster, vec![Limit::per_hour(5).with_name("p").into(), hourly("q", 5)]).await;
    let mut callers = JoinSet::new();
    for caller in 0..30 {
        let store = store.clone();
        callers.spawn(async move {
            let mut admitted = 0;
            for key in 0..100 {
                let key = format!("key {}", (key + caller) % 100);
                admitted += u64::from(admits(&store, &[charge("p", &key, 1)]).await);
                // Both policies of one key share a slot: together they are atomic.
                let both = [charge("p", &key, 1), charge("q", &key, 1)];
                admitted += u64::from(admits(&store, &both).await);
            }
            admitted
        });
    }
    let admitted: u64 = callers.join_all().await.into_iter().sum();
    let spread: Vec<i64> =
        cluster.nodes().iter().map(|node| node.command(&["DBSIZE"]).as_int()).collect();
    assert_eq!(admitted, 500, "100 keys of 5 units, on nodes with {spread:?} records");
    assert!(spread.iter().all(|records| *records > 20), "{spread:?}");
    store.clear().await.unwrap();
    assert!(cluster.nodes().iter().all(|node| node.command(&["DBSIZE"]).as_int() == 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_under_load_without_errors() {
    let cluster = Cluster::start(3, 0);
    let store =
        store(&cluster, vec![hourly("p", 1_000), Limit::per_hour(500).with_name("g").into()]).await;
    assert!(admits(&store, &[charge("p", "hot", 1)]).await);
    let slot = slot_of_only_key(&cluster);
    let from = cluster.primary_of_slot(slot);
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        callers.spawn(async move {
            let mut admitted = (0, 0);
            for _ in 0..250 {
                admitted.0 += u64::from(admits(&store, &[charge("p", "hot", 1)]).await);
                admitted.1 += u64::from(admits(&store, &[charge("g", "hot", 1)]).await);
            }
            admitted
        });
    }
    let there_and_back = [(from + 1) % 3, (from + 2) % 3, from];
    let admitted = tokio::task::block_in_place(|| {
        for to in there_and_back {
            let moving = cluster.begin_move(slot, to);
            std::thread::sleep(Duration::from_millis(20));
            cluster.move_keys(moving, 1);
            std::thread::sleep(Duration::from_millis(20));
            cluster.finish_move(moving);
        }
        tokio::runtime::Handle::current().block_on(callers.join_all())
    });
    let total = admitted.into_iter().fold((1, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!(total, (1_000, 500));
}

/// Two policies that share a key write its record by turns, while checks of it wait for other slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_that_share_a_key_are_checked_across_slots() {
    let cluster = Cluster::start(3, 0);
    let store = store(&cluster, vec![hourly("p", 1_000)]).await;
    let window = Limit::from(FixedWindow::new(2_000, HOUR).unwrap());
    let more = Limit::from(FixedWindow::new(3_000, 2 * HOUR).unwrap()).with_name("more");
    let gold = Policy::new("gold", [window, more]).unwrap();
    store.set_variant("p", gold, Migration::Units).await.unwrap();
    let mut callers = JoinSet::new();
    for caller in 0..8 {
        let store = store.clone();
        callers.spawn(async move {
            for n in 0..30 {
                let (policy, other) = (["p", "gold"][caller % 2], format!("{caller} {n}"));
                let both = [charge(policy, "shared", 1), charge("p", &other, 1)];
                assert!(admits(&store, &both).await);
            }
        });
    }
    callers.join_all().await;
    assert_eq!(remaining(&store, "p", "shared").await, 1_000 - 8 * 30);
}

/// While a slot is moved, no key can be added beside one that is there: what a check holds is noted nowhere then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_over_several_slots_passes_while_one_of_them_moves() {
    let cluster = Cluster::start(3, 0);
    let store = store(&cluster, vec![hourly("p", 100), hourly("full", 1)]).await;
    assert!(admits(&store, &[charge("p", "moved", 1)]).await);
    let slot = slot_of_only_key(&cluster);
    assert!(admits(&store, &[charge("full", "other", 1)]).await);
    let to = (cluster.primary_of_slot(slot) + 1) % 3;
    let moving = tokio::task::block_in_place(|| cluster.begin_move(slot, to));
    for is_moved in [false, true] {
        if is_moved {
            tokio::task::block_in_place(|| cluster.move_keys(moving, 1));
        }
        for other in ["a", "b", "c", "d"] {
            assert!(admits(&store, &[charge("p", "moved", 1), charge("p", other, 1)]).await);
            assert!(!admits(&store, &[charge("p", "moved", 1), charge("full", "other", 1)]).await);
        }
    }
    tokio::task::block_in_place(|| cluster.finish_move(moving));
    assert_eq!(remaining(&store, "p", "moved").await, 100 - 1 - 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_dies_and_its_replica_takes_over() {
    let cluster = Cluster::start(3, 1);
    let builder = RedisStore::builder(&cluster.url()).denied_keys(0);
    let store = builder.connect().await.unwrap();
    store.set_policy(hourly("p", 1_000_000)).await.unwrap();
    let check = async |key: &str| {
        let answers = store.apply(Verb::Check, &[charge("p", key, 1)]).await.unwrap();
        answers[0].source
    };
    let keys: Vec<String> = (0..60).map(|key| format!("key {key}")).collect();
    for key in &keys {
        while check(key).await != Source::Authoritative {}
    }
    cluster.kill_primary(0);
    let (mut local, mut slowest) = (0, Duration::ZERO);
    for key in &keys {
        let asked = Instant::now();
        local += usize::from(check(key).await == Source::Local);
        slowest = slowest.max(asked.elapsed());
    }
    assert!(local > 5, "a third of the keys lost their primary, {local} noticed");
    assert!(local < 55, "the other primaries still answer, {local} did not");
    tokio::task::block_in_place(|| cluster.wait_for_failover(0));
    let healed = Instant::now();
    for key in &keys {
        while check(key).await != Source::Authoritative {
            assert!(healed.elapsed() < Duration::from_secs(10), "{key} never came back");
            sleep(Duration::from_millis(5)).await;
        }
    }
    println!(
        "slowest call without a primary {slowest:?}, all keys back after {:?}",
        healed.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_different_slots_are_charged_together_or_not_at_all() {
    let cluster = Cluster::start(3, 0);
    let gap: Policy = MinInterval::new(HOUR).unwrap().with_name("gap").into();
    let policies = vec![hourly("p", 10), Limit::per_hour(10).with_name("g").into(), gap];
    let store = store(&cluster, policies).await;
    // Whichever slot comes first, what was held before a refusal is as if never asked.
    for i in 0..20 {
        let (a, b, c) = (format!("a{i}"), format!("b{i}"), format!("c{i}"));
        assert!(admits(&store, &[charge("p", &b, 10)]).await);
        let all =
            [charge("p", &a, 3), charge("p", &b, 1), charge("g", &c, 2), charge("gap", &a, 1)];
        assert!(!admits(&store, &all).await);
        assert_eq!(remaining(&store, "p", &a).await, 10);
        assert_eq!(remaining(&store, "g", &c).await, 10);
        assert!(admits(&store, &[charge("gap", &a, 1)]).await, "the interval was not put back");
        let both = [charge("p", &a, 3), charge("g", &c, 2)];
        assert!(admits(&store, &both).await);
        assert_eq!(remaining(&store, "p", &a).await, 7);
        assert_eq!(remaining(&store, "g", &c).await, 8);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn across_slots_no_limit_is_ever_exceeded() {
    let cluster = Cluster::start(3, 0);
    let store = store(&cluster, vec![hourly("p", 50)]).await;
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let store = store.clone();
        callers.spawn(async move {
            let own = format!("caller {caller}");
            let mut admitted = 0;
            for _ in 0..20 {
                let charges = [charge("p", "shared", 1), charge("p", &own, 1)];
                admitted += u64::from(admits(&store, &charges).await);
            }
            (own, admitted)
        });
    }
    let admitted = callers.join_all().await;
    let total: u64 = admitted.iter().map(|(_, admitted)| admitted).sum();
    assert_eq!(total, 50);
    assert_eq!(remaining(&store, "p", "shared").await, 0);
    for (own, admitted) in admitted {
        assert_eq!(remaining(&store, "p", &own).await, 50 - admitted);
    }
}

/// What the servers' clock says.
fn time_of(cluster: &Cluster) -> Duration {
    let time = cluster.nodes()[0].command(&["TIME"]);
    let number = |part: usize| time.as_array()[part].as_text().parse().unwrap();
    Duration::from_secs(number(0)) + Duration::from_micros(number(1))
}

/// Charges of one key are taken back all the time, because a second key in another slot refuses, while windows end and
/// buckets drain. Callers that ask for the first key alone never get more than its limit admits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_is_taken_back_where_it_was_charged() {
    const TIME: Duration = Duration::from_millis(2_500);
    let cluster = Cluster::start(3, 0);
    let kinds = every_kind();
    let policies = kinds.iter().map(|kind| Policy::new(kind.name, [kind.limit.clone()]).unwrap());
    let store = store(&cluster, policies.chain([hourly("full", 1)]).collect()).await;
    // In slots before and after that of the key which is charged first.
    let refusing: Vec<String> = (0..8).map(|n| format!("full {n}")).collect();
    for key in &refusing {
        assert!(admits(&store, &[charge("full", key, 1)]).await);
    }
    for Kind { name, .. } in &kinds {
        let (log, name) = (Log::new(), *name);
        // The server's clock, to within the time it took to ask for it.
        let asked = log.now();
        let time = time_of(&cluster);
        let epoch = time - log.now()..=time - asked;
        let mut callers = JoinSet::new();
        for caller in 0..8 {
            let (refused, refusing, until) = (store.clone(), refusing.clone(), log.clone());
            callers.spawn(async move {
                while until.now() < TIME {
                    let other = &refusing[fastrand::usize(..refusing.len())];
                    let both = [charge(name, "key", 1 + caller % 2), charge("full", other, 1)];
                    assert!(!admits(&refused, &both).await);
                }
            });
            let (store, log) = (store.clone(), log.clone());
            callers.spawn(async move {
                while log.now() < TIME {
                    log.check(&store, charge(name, "key", 1)).await;
                    sleep(Duration::from_millis(fastrand::u64(1..20))).await;
                }
            });
        }
        callers.join_all().await;
        let calls = log.calls();
        let admitted: u64 = calls.iter().map(Call::granted).sum();
        assert!(admitted > 0, "{name} admits nothing");
        let has_edges = ["fixed", "sliding", "quota"].iter().any(|kind| name.starts_with(kind));
        let capacity = match name {
            _ if has_edges => 2 * UNITS,
            // C + drip·⌈D/every⌉: up to a drip more than the rate alone.
            "leaky in steps" => UNITS + 2,
            _ => UNITS,
        };
        let bound = Bound { capacity, limit: UNITS, per: SECOND, extra: 0 };
        over_admission(&calls, &bound).unwrap_or_else(|why| panic!("{name}: {why}"));
        if ["fixed on the epoch", "fixed on a calendar", "sliding", "quota"].contains(&name) {
            let mut windows: HashMap<u64, u64> = HashMap::new();
            for call in &calls {
                let window = (*epoch.start() + call.invoked).as_secs();
                if (*epoch.end() + call.returned).as_secs() == window {
                    *windows.entry(window).or_default() += call.granted();
                }
            }
            assert!(windows.values().all(|units| *units <= UNITS), "{name}: {windows:?}");
        }
    }
}

/// Charges of a fresh key that are taken back while others are under way: the first to be charged is often not the first
/// to be taken back, and what drained meanwhile must not be given back as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_in_any_order_has_drained_meanwhile() {
    const KEYS: usize = 60;
    let cluster = Cluster::start(3, 0);
    let gcra = Limit::per_second(UNITS).with_name("gcra").into();
    let store = store(&cluster, vec![gcra, hourly("full", 1)]).await;
    let refusing: Vec<String> = (0..8).map(|n| format!("full {n}")).collect();
    for key in &refusing {
        assert!(admits(&store, &[charge("full", key, 1)]).await);
    }
    for key in (0..KEYS).map(|n| format!("key {n}")) {
        let log = Log::new();
        let mut callers = JoinSet::new();
        for _ in 0..8 {
            let (refused, refusing, same) = (store.clone(), refusing.clone(), key.clone());
            callers.spawn(async move {
                sleep(Duration::from_micros(fastrand::u64(..4_000))).await;
                for other in &refusing[..4] {
                    let both = [charge("gcra", &same, 1), charge("full", other, 1)];
                    assert!(!admits(&refused, &both).await);
                }
            });
            let (store, log, key) = (store.clone(), log.clone(), key.clone());
            callers.spawn(async move {
                sleep(Duration::from_millis(4)).await;
                while log.now() < Duration::from_millis(240) {
                    log.check(&store, charge("gcra", &key, 1)).await;
                }
            });
        }
        callers.join_all().await;
        let bound = Bound { capacity: UNITS, limit: UNITS, per: SECOND, extra: 0 };
        over_admission(&log.calls(), &bound).unwrap_or_else(|why| panic!("{key}: {why}"));
    }
}
