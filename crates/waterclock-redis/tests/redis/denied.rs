//! Refusals that still hold are not asked for again, and never hold too long.

use tokio::time::{Instant, sleep, sleep_until};
use waterclock::{FixedWindow, Mode, Policy, Source, Store, Verb};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::RedisStore;

use crate::oracle::{Log, false_refusal, over_admission};
use crate::scene::{
    HOUR, PATIENT, SECOND, Traffic, bucket, check, millis, one, script_calls, still_bucket, store,
    units,
};

async fn caching(server: &RedisServer, policy: Policy) -> RedisStore {
    store(RedisStore::builder(&server.url()).deadline(PATIENT), policy).await
}

/// The source that refuses a key, and the instants between which it passes by the advised wait: it counts from
/// the decision, which fell somewhere between question and answer.
async fn passes(store: &RedisStore) -> (Source, Instant, Instant) {
    let asked = Instant::now();
    let answer = check(store, one("key")).await;
    let wait = answer.decision.retry_after().unwrap();
    (answer.source, asked + wait, Instant::now() + wait)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_key_is_not_asked_for_until_it_can_pass() {
    let server = RedisServer::start();
    let store = caching(&server, bucket(1, millis(700), 1).0).await;
    assert!(check(&store, one("key")).await.decision.is_allowed());
    let (refusal, earliest, latest) = passes(&store).await;
    assert_eq!(refusal, Source::Authoritative);
    let before = script_calls(&server);
    for _ in 0..500 {
        let (again, from, to) = passes(&store).await;
        assert_eq!(again, Source::DeniedCache);
        // It counts down as the store itself would.
        assert!(from < latest + millis(5) && to + millis(5) > earliest);
    }
    assert_eq!(script_calls(&server), before);
    sleep_until(latest).await;
    assert!(check(&store, one("key")).await.decision.is_allowed());
}

/// Sooner or later, but never after the wait is over: as strict as without a cache, and as fair.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_are_refused_exactly_when_they_must_be() {
    let server = RedisServer::start();
    let (policy, bound) = bucket(100, SECOND, 10);
    let store = caching(&server, policy).await;
    let before = script_calls(&server);
    let traffic = Traffic::start(&store, "hot", 16, millis(1));
    sleep(2 * SECOND).await;
    let calls = traffic.stop().await;
    over_admission(&calls, &bound).unwrap();
    false_refusal(&calls, &bound).unwrap();
    let (asked, all) = (script_calls(&server) - before, calls.len() as u64);
    assert!(asked * 3 < all, "{asked} of {all}");
    println!("denied cache: {asked} calls of Redis for {all} decisions");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_caller_is_refused_exactly_when_it_must_be() {
    let server = RedisServer::start();
    let (policy, bound) = bucket(100, SECOND, 5);
    let (store, log) = (caching(&server, policy).await, Log::new());
    for i in 0..1_000 {
        log.check(&store, units("key", i % 3 + 1)).await;
        sleep(millis(i % 2)).await;
    }
    over_admission(&log.calls(), &bound).unwrap();
    false_refusal(&log.calls(), &bound).unwrap();
}

/// Exhausts a key and makes its refusal known.
async fn refused(store: &RedisStore, cost: u64) {
    assert!(check(store, units("key", cost)).await.decision.is_allowed());
    assert!(!check(store, units("key", cost)).await.decision.is_allowed());
    assert_eq!(check(store, units("key", cost)).await.source, Source::DeniedCache);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_given_back_elsewhere_show_within_a_second() {
    let server = RedisServer::start();
    let (store, other) =
        (caching(&server, still_bucket(5)).await, caching(&server, still_bucket(5)).await);
    refused(&store, 5).await;
    other.apply(Verb::Refund, &[units("key", 5)]).await.unwrap();
    let given_back = Instant::now();
    while !check(&store, units("key", 5)).await.decision.is_allowed() {
        assert!(given_back.elapsed() < SECOND + millis(100));
        sleep(millis(5)).await;
    }
    println!("a refund elsewhere shows after {:?}", given_back.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_given_back_here_show_at_once() {
    let server = RedisServer::start();
    let store = caching(&server, still_bucket(5)).await;
    for verb in [Verb::Refund, Verb::Reset] {
        refused(&store, 5).await;
        store.apply(verb, &[units("key", 5)]).await.unwrap();
    }
    assert!(check(&store, units("key", 5)).await.decision.is_allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_smaller_cost_is_asked_for() {
    let server = RedisServer::start();
    let store = caching(&server, still_bucket(5)).await;
    assert!(check(&store, units("key", 3)).await.decision.is_allowed());
    assert!(!check(&store, units("key", 3)).await.decision.is_allowed());
    assert_eq!(check(&store, units("key", 4)).await.source, Source::DeniedCache);
    let small = check(&store, units("key", 2)).await;
    assert_eq!((small.source, small.decision.is_allowed()), (Source::Authoritative, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_policy_is_asked_for() {
    let server = RedisServer::start();
    let store = caching(&server, still_bucket(5)).await;
    refused(&store, 5).await;
    store.set_policy(still_bucket(10)).await.unwrap();
    assert!(check(&store, units("key", 5)).await.decision.is_allowed());
}

/// If every attempt counts, every attempt reaches Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uniform_policies_are_always_asked_for() {
    let server = RedisServer::start();
    let window = FixedWindow::new(5, HOUR).unwrap();
    let policy = Policy::new("p", [window]).unwrap().with_mode(Mode::CountRefusals).unwrap();
    let store = caching(&server, policy).await;
    let before = script_calls(&server);
    for i in 1..=20 {
        let answer = check(&store, one("key")).await;
        assert_eq!((answer.source, answer.decision.is_allowed()), (Source::Authoritative, i <= 5));
    }
    assert_eq!(script_calls(&server) - before, 20);
}

/// A full cache forgets nothing wrongly: what it does not know it asks for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_cache_asks() {
    let server = RedisServer::start();
    let builder = RedisStore::builder(&server.url()).deadline(PATIENT).denied_keys(2);
    let store = store(builder, still_bucket(1)).await;
    for key in ["a", "b", "c"] {
        check(&store, one(key)).await;
        check(&store, one(key)).await;
    }
    for (key, source) in [("a", Source::DeniedCache), ("c", Source::Authoritative)] {
        let answer = check(&store, one(key)).await;
        assert_eq!((answer.source, answer.decision.is_allowed()), (source, false), "{key}");
    }
}

/// A policy changes while one of its refusals is cached: the new one decides at once, whatever its limits are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_policy_is_not_answered_by_an_older_refusal() {
    let server = RedisServer::start();
    let store = caching(&server, still_bucket(1)).await;
    assert!(check(&store, one("key")).await.decision.is_allowed());
    assert!(!check(&store, one("key")).await.decision.is_allowed());
    assert_eq!(check(&store, one("key")).await.source, Source::DeniedCache);
    let window = FixedWindow::new(5, HOUR).unwrap().with_name("window");
    let bucket = bucket(1, HOUR, 3).0.limits()[0].clone();
    store.set_policy(Policy::new("p", [bucket, window]).unwrap()).await.unwrap();
    let answer = check(&store, one("key")).await;
    assert!(answer.decision.is_allowed() && answer.limits.len() == 2, "{answer:?}");
}
