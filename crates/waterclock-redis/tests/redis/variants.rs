//! Policies that share their keys, in Redis.

use fastrand::Rng;
use tokio::task::JoinSet;
use waterclock::store::MAX_SHARING;
use waterclock::{
    Charge, Decision, FixedWindow, Gcra, LeakyBucket, Limit, ManualClock, MemoryStore, Migration,
    MinInterval, Mode, Policy, Quota, RollingWindow, SlidingWindow, Source, Store, StoreError,
    Timestamp, Verb,
};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::RedisStore;

use crate::scene::{HOUR, PATIENT, SECOND, asking, keys};

fn hourly(name: &str, limit: u64) -> Policy {
    Policy::new(name, [Gcra::new(limit, HOUR).unwrap()]).unwrap()
}

/// So slowly that no unit returns while a thousand policies are set.
fn slowly(name: &str, limit: u64) -> Policy {
    Policy::new(name, [Gcra::new(limit, 1_000 * HOUR).unwrap()]).unwrap()
}

async fn redis(
    server: &RedisServer,
    prefix: &str,
    migration: Migration,
    all: &[Policy],
) -> RedisStore {
    let store = asking(&server.url()).deadline(PATIENT).prefix(prefix).connect().await.unwrap();
    family(&store, migration, all).await;
    store
}

async fn family(store: &impl Store, migration: Migration, all: &[Policy]) {
    store.set_policy(all[0].clone()).await.unwrap();
    for policy in &all[1..] {
        store.set_variant(all[0].name(), policy.clone(), migration).await.unwrap();
    }
}

fn charge(policy: &str, cost: u64) -> Charge<'_> {
    Charge::new(policy, b"alice", cost)
}

async fn ask(store: &impl Store, verb: Verb, policy: &str, cost: u64) -> Decision {
    let answer = store.apply(verb, &[charge(policy, cost)]).await.unwrap().remove(0);
    assert_eq!(answer.source, Source::Authoritative);
    answer.decision
}

async fn left(store: &RedisStore, policy: &str) -> u64 {
    ask(store, Verb::Peek, policy, 1).await.remaining().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_spent_under_one_is_spent_under_the_other() {
    let server = RedisServer::start();
    let all = [hourly("login", 100), hourly("login@5", 5), hourly("login@300", 300)];
    let store = redis(&server, "wc", Migration::Units, &all).await;
    assert!(ask(&store, Verb::Check, "login", 5).await.is_allowed());
    assert_eq!((left(&store, "login@5").await, left(&store, "login@300").await), (0, 295));
    assert!(ask(&store, Verb::Check, "login@300", 90).await.is_allowed());
    assert!(!ask(&store, Verb::Check, "login@5", 1).await.is_allowed());
    assert_eq!(left(&store, "login").await, 5, "a refusal forgets nothing");
    assert_eq!(keys(&server).len(), 1);
    let _ = ask(&store, Verb::Refund, "login@5", 2).await;
    assert_eq!((left(&store, "login").await, left(&store, "login@5").await), (7, 0));
    // What is charged whether or not there is room takes nothing from what a larger limit has counted.
    let before = left(&store, "login@300").await;
    let _ = ask(&store, Verb::Debit, "login@5", 1).await;
    assert_eq!(left(&store, "login@300").await, before - 1);
    let _ = ask(&store, Verb::Reset, "login@5", 2).await;
    assert_eq!((left(&store, "login").await, left(&store, "login@300").await), (100, 300));
    assert!(keys(&server).is_empty());
    let both = [charge("login", 1), charge("login@5", 1)];
    let error = store.apply(Verb::Check, &both).await.unwrap_err();
    assert!(error.to_string().contains("`login@5`"), "{error}");
    let error = store.set_variant("login", hourly("late", 1), Migration::Time).await.unwrap_err();
    assert!(error.to_string().contains("the same way"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_share_by_units_and_a_thousand_by_time() {
    let server = RedisServer::start();
    let many: Vec<Policy> =
        (1..=MAX_SHARING as u64).map(|n| hourly(&format!("u{n}"), 10 * n)).collect();
    let store = redis(&server, "wc", Migration::Units, &many).await;
    let more = store.set_variant("u1", hourly("more", 1), Migration::Units).await.unwrap_err();
    assert!(matches!(&more, StoreError::Unfit(why) if why.to_string().contains("more")), "{more}");
    store.set_variant("u1", hourly("u8", 81), Migration::Units).await.unwrap();
    assert!(ask(&store, Verb::Check, "u8", 41).await.is_allowed());
    assert_eq!((left(&store, "u8").await, left(&store, "u5").await), (40, 9));
    assert!(ask(&store, Verb::Check, "u450", 59).await.is_allowed());
    assert_eq!((left(&store, "u8").await, left(&store, "u11").await), (0, 10));
    // Written by the policy alone, then by any of its variants.
    store.set_policy(slowly("t1", 1_000)).await.unwrap();
    assert!(ask(&store, Verb::Check, "t1", 500).await.is_allowed());
    for n in 2..=1_000 {
        store.set_variant("t1", slowly(&format!("t{n}"), n), Migration::Time).await.unwrap();
    }
    // Five hundred hours are owed by any measure.
    for (name, half) in [("t1", 500), ("t10", 5), ("t999", 499), ("t3", 1)] {
        assert_eq!(left(&store, name).await, half, "{name}");
    }
    assert!(ask(&store, Verb::Check, "t7", 3).await.is_allowed());
    assert!(!ask(&store, Verb::Check, "t1", 90).await.is_allowed(), "three sevenths more are owed");
    assert_eq!(keys(&server).len(), 2, "one record per key and family");
}

/// A limit of some kind, with numbers of its own.
pub(crate) fn draw_limit(dice: &mut Rng, kind: u8, name: &str) -> Limit {
    let n = dice.u64(1..12);
    let per = SECOND * [1, 2, 7, 60][dice.usize(0..4)];
    let limit: Limit = match kind {
        0..=2 => Gcra::new(n, per).unwrap().with_capacity(dice.u64(1..12)).into(),
        3 => LeakyBucket::new(n + 1, dice.u64(2..4), per / 4).unwrap().into(),
        4 => FixedWindow::new(n, per).unwrap().into(),
        5 => SlidingWindow::new(n, per).unwrap().into(),
        6 => RollingWindow::new(n, per).unwrap().into(),
        7 => Quota::new(n, per).unwrap().into(),
        _ => MinInterval::new(per / 4).unwrap().into(),
    };
    limit.with_name(name)
}

fn draw_family(dice: &mut Rng, migration: Migration) -> Vec<Policy> {
    let by_time = migration == Migration::Time;
    let kinds: Vec<u8> = match by_time {
        true => vec![0],
        false => (0..dice.usize(1..3)).map(|_| dice.u8(0..9)).collect(),
    };
    let mode = if dice.bool() { Mode::Binary } else { Mode::Partial };
    let policy = |dice: &mut Rng, variant: usize| {
        let limit = |(kind, name): (&u8, &&str)| draw_limit(dice, *kind, name);
        let limits: Vec<Limit> = kinds.iter().zip(&["one", "two"]).map(limit).collect();
        Policy::new(&format!("v{variant}"), limits).unwrap().with_mode(mode).unwrap()
    };
    (0..dice.usize(2..5)).map(|variant| policy(dice, variant)).collect()
}

/// Hops between variants on Redis and in memory: the same answers, by the same trace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hopping_says_what_memory_says() {
    let server = RedisServer::start();
    for seed in 0..150 {
        let mut dice = Rng::with_seed(seed);
        let migration = if dice.bool() { Migration::Units } else { Migration::Time };
        let policies = draw_family(&mut dice, migration);
        let clock = ManualClock::default();
        let memory = MemoryStore::new(16, clock.clone());
        family(&memory, migration, &policies).await;
        let redis = redis(&server, &format!("run{seed}"), migration, &policies).await;
        let mut now_us = 1_794_000_000_000_000 + dice.u64(0..1 << 40);
        for call in 0..20 {
            now_us += dice.u64(0..600_000) * dice.u64(0..3);
            clock.set(Timestamp::from_micros(now_us));
            let verb = match dice.u8(0..20) {
                0..15 => Verb::Check,
                15..17 => Verb::Peek,
                17..19 => Verb::Refund,
                _ => Verb::Reset,
            };
            let name = policies[dice.usize(0..policies.len())].name();
            let charges = [charge(name, dice.u64(0..5))];
            let here = memory.apply(verb, &charges).await.unwrap();
            let there = redis.apply_at(Timestamp::from_micros(now_us), verb, &charges).await;
            let there = there.unwrap();
            assert_eq!(there, here, "seed {seed}, call {call}: {verb:?} {charges:?} {policies:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_hop_admit_no_more_than_the_largest_limit() {
    let server = RedisServer::start();
    for migration in [Migration::Units, Migration::Time] {
        let all = [hourly("v0", 40), hourly("v1", 100), hourly("v2", 30), hourly("v3", 70)];
        let prefix = format!("{migration:?}");
        let mut callers = JoinSet::new();
        for caller in 0..6_usize {
            // Each a process of its own, as far as Redis can tell.
            let store = redis(&server, &prefix, migration, &all).await;
            callers.spawn(async move {
                let mut granted = 0;
                for i in 0..60 {
                    let name = ["v0", "v1", "v2", "v3"][(i * (caller + 1) + caller) % 4];
                    granted += ask(&store, Verb::Check, name, 1).await.granted();
                }
                granted
            });
        }
        let granted: u64 = callers.join_all().await.into_iter().sum();
        assert!((30..=100).contains(&granted), "{granted}");
        if migration == Migration::Units {
            assert_eq!(granted, 100, "the largest is asked often enough");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_goes_and_what_was_spent_under_a_variant_stays() {
    let server = RedisServer::start();
    let all = [hourly("a", 100), hourly("a2", 50), hourly("a3", 200)];
    let store = redis(&server, "wc", Migration::Units, &all).await;
    assert!(ask(&store, Verb::Check, "a2", 40).await.is_allowed());
    store.remove_policy("a2").await.unwrap();
    assert_eq!((left(&store, "a").await, left(&store, "a3").await), (60, 160));
    assert!(ask(&store, Verb::Check, "a3", 1).await.is_allowed());
    assert_eq!((left(&store, "a").await, keys(&server).len()), (59, 1));
    store.remove_policy("a").await.unwrap();
    for name in ["a", "a2", "a3"] {
        let unknown = store.apply(Verb::Peek, &[charge(name, 1)]).await.unwrap_err();
        assert_eq!(unknown, StoreError::UnknownPolicy(name.to_owned()));
    }
}
