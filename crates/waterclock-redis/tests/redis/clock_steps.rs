//! The clock of Redis is set back, and forward: nothing is granted for it, and nothing freezes.

use std::time::Duration;

use tokio::time::sleep;
use waterclock::{Charge, ErrorRate, Outcome, Policy, Store, Verb};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::RedisStore;

use crate::kinds::{Kind, UNITS, every_kind};
use crate::oracle::{Bound, Log, over_admission, thaw};
use crate::scene::{HOUR, PATIENT, SECOND, asking, bucket, check, keys, millis, one, store, units};

/// Uses a key up; the instant before which it may not pass again.
pub(crate) async fn exhaust(store: &impl Store, log: &Log, charge: Charge<'_>) -> Duration {
    for _ in 0..1_000 {
        if log.check(store, charge.clone()).await.granted() == 0 {
            let asked = log.now();
            return asked + check(store, charge.clone()).await.decision.retry_after().unwrap();
        }
    }
    panic!("{charge:?} is never refused");
}

/// Asks until something is admitted, but not for ever.
pub(crate) async fn ask_on(store: &impl Store, log: &Log, charge: Charge<'_>, time: Duration) {
    let start = log.now();
    while log.now() - start < time && log.check(store, charge.clone()).await.granted() == 0 {
        sleep(millis(2)).await;
    }
}

fn of(kind: &Kind) -> Charge<'static> {
    Charge { policy: kind.name, ..one("key") }
}

/// Steps back by whole periods, so that windows on the epoch end where they would have.
async fn an_hour_back(server: &RedisServer, store: &RedisStore, kind: &Kind) {
    let log = Log::new();
    let may_pass = exhaust(store, &log, of(kind)).await;
    server.step_clock(HOUR, false);
    let stepped = log.now();
    ask_on(store, &log, of(kind), kind.refill + SECOND).await;
    let calls = log.calls();
    let waited = thaw(&calls, stepped, kind.refill).unwrap();
    let passed = calls.last().unwrap();
    assert!(passed.returned + millis(1) >= may_pass, "{}: {passed:?}, {may_pass:?}", kind.name);
    println!("an hour back, {}: admits again after {waited:?}", kind.name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn back_nothing_is_granted_and_nothing_freezes() {
    let server = RedisServer::start_with_clock();
    let store = asking(&server.url()).deadline(PATIENT).connect().await.unwrap();
    for kind in every_kind() {
        store.set_policy(Policy::new(kind.name, [kind.limit.clone()]).unwrap()).await.unwrap();
        an_hour_back(&server, &store, &kind).await;
    }
}

/// An unused key is not kept for the hour: its record is found late and then re-dated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn back_records_live_no_longer_than_they_matter() {
    let server = RedisServer::start_with_clock();
    let store = asking(&server.url()).deadline(PATIENT).connect().await.unwrap();
    for kind in every_kind() {
        store.set_policy(Policy::new(kind.name, [kind.limit.clone()]).unwrap()).await.unwrap();
        exhaust(&store, &Log::new(), of(&kind)).await;
    }
    server.step_clock(HOUR, false);
    for kind in every_kind() {
        check(&store, of(&kind)).await;
    }
    for key in keys(&server) {
        let ttl_ms = server.command(&[b"PTTL", &*key]).as_int();
        // Some may be gone by now; none is kept for ever, which is −1.
        assert!(ttl_ms != -1 && ttl_ms <= 2_000, "{ttl_ms} ms");
    }
}

/// Steps of every size, both ways, under load: the bound holds with what the steps forward add.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_add_what_they_skip_and_no_more() {
    let server = RedisServer::start_with_clock();
    let (policy, bound) = bucket(10, SECOND, 20);
    let store = store(asking(&server.url()).deadline(PATIENT), policy).await;
    let log = Log::new();
    let mut extra = 0;
    for (step_ms, forward) in
        [(300, true), (50, false), (3_600_000, false), (250, true), (3_600_000, true), (700, false)]
    {
        for _ in 0..30 {
            log.check(&store, units("key", 2)).await;
            sleep(millis(1)).await;
        }
        let step = millis(step_ms);
        server.step_clock(step, forward);
        if forward {
            let skipped = 10 * step_ms / 1_000 + 1;
            extra += skipped.min(bound.capacity);
        }
    }
    over_admission(&log.calls(), &Bound { extra, ..bound }).unwrap();
    over_admission(&log.calls(), &bound).expect_err("steps forward were used");
}

/// Far ahead every key is fresh: its window's worth, not more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forward_a_limits_worth_at_most() {
    let server = RedisServer::start_with_clock();
    let store = asking(&server.url()).deadline(PATIENT).connect().await.unwrap();
    for kind in every_kind() {
        store.set_policy(Policy::new(kind.name, [kind.limit.clone()]).unwrap()).await.unwrap();
        let log = Log::new();
        exhaust(&store, &log, of(&kind)).await;
        server.step_clock(HOUR, true);
        let mut granted = 0;
        for _ in 0..3 * UNITS {
            granted += log.check(&store, of(&kind)).await.granted();
        }
        // The edge of a window may pass meanwhile.
        assert!(granted <= 2 * UNITS, "{} admits {granted}", kind.name);
    }
}

/// Reports from before a step back count no longer than a period after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn back_reports_expire_a_period_later() {
    let server = RedisServer::start_with_clock();
    let breaker = ErrorRate::new(5_000, SECOND, 5, SECOND).unwrap();
    let policy = Policy::new("p", [breaker]).unwrap();
    let store = store(asking(&server.url()).deadline(PATIENT), policy).await;
    let report = async |outcome| {
        store.apply(Verb::Report(outcome), &[one("key")]).await.unwrap();
    };
    for _ in 0..4 {
        report(Outcome::Error).await;
    }
    server.step_clock(HOUR, false);
    report(Outcome::Ok).await;
    sleep(SECOND + millis(100)).await;
    report(Outcome::Error).await;
    assert!(check(&store, one("key")).await.decision.is_allowed(), "older errors still count");
}
