//! Policies that count several units, in Redis: the same as in memory.

use std::time::Duration;

use fastrand::Rng;
use waterclock::{
    Charge, Cost, FixedWindow, Hold, ManualClock, MemoryStore, OnExpiry, Policy, Settlement,
    Source, Store, StoreError, Timestamp, Verb,
};
use waterclock_conformance::real::{Proxy, RedisServer};
use waterclock_conformance::units::{draw_cost, draw_policy, draw_verb};
use waterclock_redis::RedisStore;

use crate::scene::{HOUR, PATIENT, asking, store, until_degraded};

fn charge(cost: Cost) -> Charge<'static> {
    Charge::new("p", b"alice", cost)
}

/// The same policy here and there, and a clock that is turned.
struct Both {
    memory: MemoryStore<ManualClock>,
    redis: RedisStore,
    clock: ManualClock,
    now_us: u64,
}

impl Both {
    async fn new(server: &RedisServer, seed: u64, policy: &Policy, dice: &mut Rng) -> Self {
        let clock = ManualClock::default();
        let memory = MemoryStore::new(16, clock.clone());
        memory.set_policy(policy.clone()).await.unwrap();
        let builder = asking(&server.url()).deadline(PATIENT).prefix(&format!("run{seed}"));
        let redis = store(builder, policy.clone()).await;
        Self { memory, redis, clock, now_us: 1_794_000_000_000_000 + dice.u64(0..1 << 40) }
    }

    fn pass(&mut self, dice: &mut Rng) -> Timestamp {
        self.now_us += dice.u64(0..300_000) * dice.u64(0..3);
        let now = Timestamp::from_micros(self.now_us);
        self.clock.set(now);
        now
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_say_what_memory_says() {
    let server = RedisServer::start();
    for seed in 0..150 {
        let mut dice = Rng::with_seed(seed);
        let policy = draw_policy(&mut dice).with_shadow(seed % 8 == 0);
        let mut both = Both::new(&server, seed, &policy, &mut dice).await;
        for call in 0..25 {
            let now = both.pass(&mut dice);
            let verb = draw_verb(&mut dice);
            let charges = [charge(draw_cost(&mut dice, &policy))];
            let here = both.memory.apply(verb, &charges).await.unwrap();
            let there = both.redis.apply_at(now, verb, &charges).await.unwrap();
            assert_eq!(there, here, "seed {seed}, call {call}: {verb:?} {charges:?} {policy:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reservations_say_what_memory_says() {
    let server = RedisServer::start();
    let (mut held, mut refused) = (0, 0);
    for seed in 0..100 {
        let mut dice = Rng::with_seed(seed);
        let policy = draw_policy(&mut dice).with_shadow(seed % 8 == 0);
        let mut both = Both::new(&server, 1_000 + seed, &policy, &mut dice).await;
        for call in 0..12 {
            let now = both.pass(&mut dice);
            let cost = draw_cost(&mut dice, &policy);
            let charges = [charge(cost)];
            let id = format!("r{call}");
            let ttl = Some(Duration::from_secs(60));
            let hold = Hold { id: Some(&id), ttl, charges: &charges, on_expiry: OnExpiry::Keep };
            let about = format!("seed {seed}, call {call}: {charges:?} {policy:#?}");
            let here = both.memory.reserve(&hold).await;
            let there = both.redis.reserve_at(now, &hold).await;
            let (Ok(here), Ok(there)) = (&here, &there) else {
                assert_eq!(there, here, "{about}");
                continue;
            };
            assert_eq!((&there.id, &there.answers), (&here.id, &here.answers), "{about}");
            if here.id.is_none() {
                refused += 1;
                continue;
            }
            held += 1;
            let now = both.pass(&mut dice);
            let used = [draw_cost(&mut dice, &policy)];
            let with = || match call % 4 {
                0 => Settlement::Cancel,
                _ => Settlement::Commit(&used),
            };
            let here = both.memory.settle(&id, with()).await;
            let there = both.redis.settle_at(now, &id, with()).await;
            assert_eq!(there, here, "{about}, used {used:?}");
            let peek = [charge(Cost::from(0))];
            let here = both.memory.apply(Verb::Peek, &peek).await.unwrap();
            let there = both.redis.apply_at(now, Verb::Peek, &peek).await.unwrap();
            assert_eq!(there, here, "after settling, {about}, used {used:?}");
        }
    }
    assert!(held > 100 && refused > 100, "{held} held, {refused} refused");
}

fn llm(requests: u64, tokens: u64) -> Policy {
    let requests = FixedWindow::new(requests, HOUR).unwrap().with_name("requests");
    let tokens = FixedWindow::new(tokens, HOUR).unwrap().with_name("tokens").with_unit("tokens");
    Policy::new("p", [requests, tokens]).unwrap()
}

async fn left(store: &RedisStore) -> (u64, u64) {
    let answers = store.apply(Verb::Peek, &[charge(Cost::from(0))]).await.unwrap();
    let remaining = |i: usize| answers[0].limits[i].remaining.unwrap();
    (remaining(0), remaining(1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_number_is_no_cost_of_several_units() {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).deadline(PATIENT), llm(5, 1_000)).await;
    let error = store.apply(Verb::Check, &[charge(Cost::from(1))]).await.unwrap_err();
    assert!(matches!(&error, StoreError::BadCost(_)), "{error}");
    assert_eq!(left(&store).await, (5, 1_000));
}

/// A refusal that is remembered holds for what is as much of every unit, and for nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remembered_refusal_is_of_its_units() {
    let server = RedisServer::start();
    let builder = RedisStore::builder(&server.url()).deadline(PATIENT);
    let store = store(builder, llm(5, 1_000)).await;
    let ask = async |requests: u64, tokens: u64| {
        let cost = Cost::of_units([("requests", requests), ("tokens", tokens)]);
        let answer = store.apply(Verb::Check, &[charge(cost)]).await.unwrap().remove(0);
        (answer.decision.is_allowed(), answer.source)
    };
    assert_eq!(ask(1, 900).await, (true, Source::Authoritative));
    assert_eq!(ask(1, 200).await, (false, Source::Authoritative));
    assert_eq!(ask(1, 200).await, (false, Source::DeniedCache));
    assert_eq!(ask(2, 300).await, (false, Source::DeniedCache));
    assert_eq!(ask(3, 100).await, (true, Source::Authoritative));
}

/// What was admitted without Redis is charged there, unit by unit, when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_each_unit_is_shared_and_charged_afterwards() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let store = store(asking(&proxy.url()).nodes(2), llm(10, 1_000)).await;
    proxy.refuse();
    proxy.drop_all();
    while !store.is_degraded() {
        _ = store.apply(Verb::Peek, &[charge(Cost::from(0))]).await;
    }
    // One request each, without saying so.
    let cost = Cost::of_units([("tokens", 200)]);
    let mut admitted = 0;
    for _ in 0..5 {
        let answer = store.apply(Verb::Check, &[charge(cost.clone())]).await.unwrap().remove(0);
        assert_eq!(answer.source, Source::Local);
        admitted += u64::from(answer.decision.is_allowed());
    }
    assert_eq!(admitted, 2, "half of a thousand tokens");
    proxy.pass();
    until_degraded(&store, false, tokio::time::Instant::now()).await;
    let start = tokio::time::Instant::now();
    while left(&store).await != (8, 600) {
        assert!(start.elapsed() < PATIENT, "{:?}", left(&store).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// If there is no room for one unit any more, the other is charged all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_without_room_does_not_block_the_others() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let cut_off = store(asking(&proxy.url()), llm(10, 1_000)).await;
    let other = store(asking(&server.url()).deadline(PATIENT), llm(10, 1_000)).await;
    proxy.refuse();
    proxy.drop_all();
    while !cut_off.is_degraded() {
        _ = cut_off.apply(Verb::Peek, &[charge(Cost::from(0))]).await;
    }
    let here = Cost::of_units([("requests", 4), ("tokens", 100)]);
    assert_eq!(cut_off.apply(Verb::Check, &[charge(here)]).await.unwrap()[0].source, Source::Local);
    let there = Cost::of_units([("requests", 9), ("tokens", 0)]);
    assert!(other.apply(Verb::Check, &[charge(there)]).await.unwrap()[0].decision.is_allowed());
    proxy.pass();
    until_degraded(&cut_off, false, tokio::time::Instant::now()).await;
    let start = tokio::time::Instant::now();
    while left(&other).await != (0, 900) {
        assert!(start.elapsed() < PATIENT, "{:?}", left(&other).await);
        _ = left(&cut_off).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A debit or a refund is of what it names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_back_is_what_is_named() {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).deadline(PATIENT), llm(5, 1_000)).await;
    let tokens = |n: u64| [charge(Cost::of_units([("tokens", n)]))];
    store.apply(Verb::Check, &tokens(800)).await.unwrap();
    assert_eq!(left(&store).await, (4, 200));
    store.apply(Verb::Refund, &tokens(300)).await.unwrap();
    assert_eq!(left(&store).await, (4, 500));
    store.apply(Verb::Debit, &tokens(100)).await.unwrap();
    assert_eq!(left(&store).await, (4, 400));
}
