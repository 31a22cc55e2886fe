//! Costs known only afterwards: they count, whatever there is room for, and once.

use std::time::Duration;

use tokio::time::Instant;
use waterclock::{
    Answer, Failure, FixedWindow, Gcra, Limit, Policy, Source, Store, StoreError, Verb,
};
use waterclock_conformance::real::{Proxy, RedisServer};
use waterclock_redis::{OnStoreError, RedisStore, Serving};

use crate::scene::{
    HOUR, PATIENT, SECOND, asking, check, keys, one, remaining, still_bucket, store, units,
    until_degraded, used_of_still_bucket,
};

async fn debit(store: &RedisStore, cost: u64) -> Result<Answer, StoreError> {
    Ok(store.apply(Verb::Debit, &[units("key", cost)]).await?.remove(0))
}

fn serving(on_store_error: OnStoreError) -> Serving {
    Serving::new(on_store_error)
}

/// A bucket of five in every shape that its record can have.
fn buckets() -> Vec<Limit> {
    let gcra = Gcra::new(5, SECOND).unwrap();
    let fraction = Gcra::new(3, Duration::from_micros(600_001)).unwrap().with_capacity(5);
    let gap = Limit::from(gcra).with_min_interval(Duration::from_millis(1)).unwrap();
    vec![gcra.into(), fraction.into(), gap, gcra.with_overdraft(true).into()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_debt_is_paid_back_to_the_end() {
    let server = RedisServer::start();
    for (number, limit) in buckets().into_iter().enumerate() {
        let builder = asking(&server.url()).deadline(PATIENT).prefix(&format!("p{number}-"));
        let store = store(builder, Policy::new("p", [limit.clone()]).unwrap()).await;
        // Ten seconds' worth, where a full bucket is one.
        let owes = debit(&store, 50).await.unwrap();
        assert_eq!(owes.source, Source::Authoritative);
        for _ in 0..3 {
            let refused = check(&store, one("key")).await.decision;
            let retry = refused.retry_after().unwrap();
            assert!(retry > Duration::from_secs(8), "{limit:?} forgives: {retry:?}");
        }
        store.apply(Verb::Refund, &[units("key", 46)]).await.unwrap();
        assert!(check(&store, one("key")).await.decision.is_allowed(), "{limit:?}");
    }
}

/// A clock that steps back makes no caller wait longer, and forgives nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_debt_is_as_deep_after_the_clock_stepped_back() {
    let server = RedisServer::start_with_clock();
    for (number, limit) in buckets().into_iter().enumerate() {
        let builder = asking(&server.url()).deadline(PATIENT).prefix(&format!("p{number}-"));
        let store = store(builder, Policy::new("p", [limit.clone()]).unwrap()).await;
        debit(&store, 50).await.unwrap();
        server.step_clock(HOUR, false);
        for _ in 0..2 {
            let retry = check(&store, one("key")).await.decision.retry_after().unwrap();
            let expected = Duration::from_secs(7)..Duration::from_secs(11);
            assert!(expected.contains(&retry), "{limit:?}: {retry:?}");
        }
        let peek = store.apply(Verb::Peek, &[one("key")]).await.unwrap().remove(0);
        assert!(peek.decision.retry_after().unwrap() < Duration::from_secs(11), "{limit:?}");
        // Earlier ones were written before the clock stepped.
        let prefix = format!("p{number}-").into_bytes();
        for key in keys(&server).into_iter().filter(|key| key.starts_with(&prefix)) {
            let ttl_ms = server.command(&[b"PTTL", &*key]).as_int();
            assert!((1..=12_000).contains(&ttl_ms), "{limit:?}: {ttl_ms} ms");
        }
    }
}

/// What is charged in one call with others is charged whether or not they fit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_keys_are_debited_together() {
    let server = RedisServer::start();
    let policy = Policy::new("p", [FixedWindow::new(10, HOUR).unwrap()]).unwrap();
    let store = store(asking(&server.url()).deadline(PATIENT), policy).await;
    let both = [units("a", 30), units("b", 4)];
    store.apply(Verb::Debit, &both).await.unwrap();
    assert_eq!((remaining(&store, "a").await, remaining(&store, "b").await), (0, 6));
    store.apply(Verb::Refund, &[units("a", 25)]).await.unwrap();
    assert_eq!(remaining(&store, "a").await, 5);
}

/// A debit without an answer is not repeated: neither by the store itself, nor when Redis is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_lost_reply_it_is_not_repeated() {
    for on_store_error in [OnStoreError::Deny, OnStoreError::Local] {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        let builder = asking(&proxy.url()).serving(serving(on_store_error));
        let store = store(builder.deadline(SECOND), still_bucket(100)).await;
        debit(&store, 1).await.unwrap();
        proxy.swallow_replies();
        let answer = debit(&store, 40).await;
        match on_store_error {
            OnStoreError::Local => assert_eq!(answer.unwrap().source, Source::Local),
            _ => assert_eq!(answer.unwrap_err().failure(), Some(Failure::Timeout)),
        }
        proxy.pass();
        let start = Instant::now();
        while check(&store, units("other", 0)).await.source != Source::Authoritative {
            assert!(start.elapsed() < PATIENT);
        }
        until_degraded(&store, false, Instant::now()).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(used_of_still_bucket(&server), 41, "{on_store_error:?}");
    }
}

/// Without Redis a debit counts against this node's share, and in Redis when it is back; or it is an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_on_store_error_applies() {
    for on_store_error in [OnStoreError::Local, OnStoreError::Allow, OnStoreError::Deny] {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        let builder = asking(&proxy.url()).serving(serving(on_store_error));
        let store = store(builder, still_bucket(100)).await;
        proxy.refuse();
        proxy.drop_all();
        // Until the breaker is open, so that it is known that nothing was charged.
        while !store.is_degraded() {
            _ = store.apply(Verb::Peek, &[one("other")]).await;
        }
        let answer = debit(&store, 40).await;
        match on_store_error {
            OnStoreError::Local => assert_eq!(answer.unwrap().decision.remaining(), Some(60)),
            OnStoreError::Allow => assert_eq!(answer.unwrap().source, Source::Policy),
            _ => assert!(answer.unwrap_err().failure().is_some()),
        }
        proxy.pass();
        until_degraded(&store, false, Instant::now()).await;
        check(&store, units("other", 0)).await;
        let start = Instant::now();
        let expected = if on_store_error == OnStoreError::Local { 40 } else { 0 };
        while used_of_still_bucket(&server) != expected {
            assert!(start.elapsed() < PATIENT, "{on_store_error:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
