//! Records expire when they no longer matter, by the real clock, without visible effect.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use waterclock::{Answer, Decision, LimitDecision, Mode, Policy, Source, Store, Verb};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::RedisStore;

use crate::kinds::every_kind;
use crate::oracle;
use crate::scene::{PATIENT, asking, millis, store, units};

/// Every kind of limit in every mode it has, and one of several limits.
fn policies() -> Vec<Policy> {
    let mut policies = Vec::new();
    for kind in every_kind() {
        let policy = Policy::new("p", [kind.limit]).unwrap();
        let others =
            [Mode::Partial, Mode::CountRefusals].map(|mode| policy.clone().with_mode(mode));
        policies.push(policy);
        policies.extend(others.into_iter().filter_map(Result::ok));
    }
    let kinds = every_kind().into_iter().filter(|kind| kind.name != "even slots");
    policies.push(Policy::new("p", kinds.map(|kind| kind.limit.with_name(kind.name))).unwrap());
    policies
}

/// A store with a key prefix of its own, and that prefix.
async fn own_store(server: &RedisServer, number: usize, policy: &Policy) -> (RedisStore, String) {
    let prefix = format!("policy-{number}-");
    let builder = asking(&server.url()).deadline(PATIENT).prefix(&prefix);
    (store(builder, policy.clone()).await, prefix)
}

/// The time to live of the only record under a prefix; −2 if there is none.
fn ttl_ms(server: &RedisServer, prefix: &str) -> i64 {
    let keys = server.command(&["KEYS", &format!("{prefix}{{*")]);
    let [key] = keys.as_array() else { return -2 };
    server.command(&["PTTL", &key.as_text()]).as_int()
}

async fn apply(store: &RedisStore, verb: Verb, cost: u64) -> Answer {
    let answer = store.apply(verb, &[units("key", cost)]).await.unwrap().remove(0);
    assert_eq!(answer.source, Source::Authoritative);
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_record_expires_when_it_is_fresh() {
    let server = RedisServer::start();
    let mut random = fastrand::Rng::with_seed(1);
    for (number, policy) in policies().iter().enumerate() {
        let (store, prefix) = own_store(&server, number, policy).await;
        for _ in 0..25 {
            let verb = if random.u8(..8) == 0 { Verb::Refund } else { Verb::Check };
            let sent = Instant::now();
            let answer = apply(&store, verb, random.u64(1..4)).await;
            let ttl_ms = ttl_ms(&server, &prefix);
            let reset = answer.decision.reset_after();
            let complaint = oracle::expiry(ttl_ms, reset, sent.elapsed()).err();
            assert_eq!(complaint, None, "{policy:?}, {answer:?}");
            sleep(Duration::from_micros(random.u64(..3_000))).await;
        }
    }
}

/// What a policy says of a key, without what it says to only one of two.
fn said(answer: &Answer) -> (Decision, Vec<LimitDecision>) {
    (answer.decision, answer.limits.to_vec())
}

/// After a record's time is up, the key answers like one that was never seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_records_have_no_visible_effect() {
    let server = RedisServer::start();
    let mut stores = Vec::new();
    for (number, policy) in policies().into_iter().enumerate() {
        let (store, prefix) = own_store(&server, number, &policy).await;
        let answer = apply(&store, Verb::Check, 2).await;
        stores.push((store, prefix, policy, Instant::now() + answer.decision.reset_after()));
    }
    for (store, prefix, policy, fresh_at) in stores {
        sleep_until(fresh_at + millis(3)).await;
        assert_eq!(ttl_ms(&server, &prefix), -2, "{policy:?}");
        let charges = [units("key", 1), units("new", 1)];
        let answers = store.apply(Verb::Peek, &charges).await.unwrap();
        assert_eq!(said(&answers[0]), said(&answers[1]), "{policy:?}");
    }
}
