//! Callers that keep checking while things break.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use waterclock::{Answer, Charge, Gcra, Policy, Store, Verb};
use waterclock_conformance::real::{RedisServer, Reply};
use waterclock_redis::{RedisStore, RedisStoreBuilder};

use crate::oracle::{Bound, Call, Log};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
/// The default deadline of a store.
pub(crate) const DEADLINE: Duration = Duration::from_millis(50);
/// For tests that are not about the deadline, on a busy machine.
pub(crate) const PATIENT: Duration = Duration::from_secs(5);

pub(crate) fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A policy called `p` of one bucket, and what it may admit.
pub(crate) fn bucket(limit: u64, per: Duration, capacity: u64) -> (Policy, Bound) {
    let gcra = Gcra::new(limit, per).unwrap().with_capacity(capacity);
    let policy = Policy::new("p", [gcra]).unwrap();
    (policy, Bound { capacity, limit, per, extra: 0 })
}

/// A bucket that does not drain while a test runs: a unit takes longer than any.
pub(crate) fn still_bucket(capacity: u64) -> Policy {
    bucket(1, HOUR, capacity).0
}

/// What is used of the only record of a still bucket, as Redis has it.
pub(crate) fn used_of_still_bucket(server: &RedisServer) -> u64 {
    let hour_us = i64::try_from(HOUR.as_micros()).unwrap();
    let Some(key) = only_key(server) else { return 0 };
    // Behind the instant stand three digits that name the definition.
    let full_at = server.command(&[b"GET", &*key]).as_int() / 1_000;
    let Reply::Array(time) = server.command(&["TIME"]) else { panic!("no time") };
    let now = time[0].as_int() * 1_000_000 + time[1].as_int();
    let used = (full_at - now + hour_us - 1) / hour_us;
    u64::try_from(used).unwrap()
}

/// The keys of all records.
pub(crate) fn keys(server: &RedisServer) -> Vec<Vec<u8>> {
    let bytes = |key: &Reply| key.as_text().into_bytes();
    server.command(&["KEYS", "*{*}*"]).as_array().iter().map(bytes).collect()
}

pub(crate) fn only_key(server: &RedisServer) -> Option<Vec<u8>> {
    let keys = keys(server);
    assert!(keys.len() <= 1, "{keys:?}");
    keys.into_iter().next()
}

/// How many calls of scripts a server has answered, those of scripts it did not know left out.
pub(crate) fn script_calls(server: &RedisServer) -> u64 {
    commands(server, &["evalsha", "eval"])
}

/// How many of these commands a server has answered, also within scripts, those that failed left out.
pub(crate) fn commands(server: &RedisServer, names: &[&str]) -> u64 {
    let number = |line: &str, name: &str| {
        let value = line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse::<u64>().ok()).expect("a number")
    };
    let calls = |command: &&str| {
        let line = server.info("commandstats", &format!("cmdstat_{command}"))?;
        Some(number(&line, "calls") - number(line.trim_end(), "failed_calls"))
    };
    names.iter().filter_map(calls).sum()
}

/// A store that asks Redis about every call.
pub(crate) fn asking(url: &str) -> RedisStoreBuilder {
    RedisStore::builder(url).denied_keys(0)
}

/// A connected store with one policy.
pub(crate) async fn store(builder: RedisStoreBuilder, policy: Policy) -> RedisStore {
    let store = builder.connect().await.unwrap();
    store.set_policy(policy).await.unwrap();
    store
}

/// One unit of policy `p`.
pub(crate) fn one(key: &str) -> Charge<'_> {
    units(key, 1)
}

pub(crate) fn units(key: &str, cost: u64) -> Charge<'_> {
    Charge::new("p", key.as_bytes(), cost)
}

/// Checks one key.
pub(crate) async fn check(store: &impl Store, charge: Charge<'_>) -> Answer {
    store.apply(Verb::Check, &[charge]).await.unwrap().remove(0)
}

/// What is left of a key, without using any.
pub(crate) async fn remaining(store: &impl Store, key: &str) -> u64 {
    let answers = store.apply(Verb::Peek, &[units(key, 0)]).await.unwrap();
    answers[0].decision.remaining().unwrap()
}

/// Callers that ask for one unit of one key again and again.
pub(crate) struct Traffic {
    pub(crate) log: Log,
    stop: Arc<AtomicBool>,
    callers: JoinSet<()>,
}

impl Traffic {
    pub(crate) fn start<S>(store: &S, key: &'static str, callers: usize, pause: Duration) -> Self
    where
        S: Store + Clone + 'static,
    {
        Self::start_on(&Log::new(), store, key, callers, pause)
    }

    /// The same, in a log that others write to as well.
    pub(crate) fn start_on<S>(
        log: &Log,
        store: &S,
        key: &'static str,
        callers: usize,
        pause: Duration,
    ) -> Self
    where
        S: Store + Clone + 'static,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = JoinSet::new();
        for _ in 0..callers {
            let (store, log, stop) = (store.clone(), log.clone(), Arc::clone(&stop));
            all.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    log.check(&store, one(key)).await;
                    sleep(pause).await;
                }
            });
        }
        Self { log: log.clone(), stop, callers: all }
    }

    /// Goes on until the store has decided again after a fault, and for a second more.
    pub(crate) async fn stop_when_back(self, healed: Duration) -> Vec<Call> {
        let is_back = |call: &Call| call.invoked >= healed && call.is_from_store();
        while !self.log.calls().iter().any(is_back) && self.log.now() < healed + 2 * PATIENT {
            sleep(millis(50)).await;
        }
        sleep(SECOND).await;
        self.stop().await
    }

    /// Lets the calls under way end, and tells what all of them saw.
    pub(crate) async fn stop(self) -> Vec<Call> {
        self.stop.store(true, Ordering::Relaxed);
        self.callers.join_all().await;
        self.log.calls()
    }
}

/// How long after the fault, or its end, the store gives its server up, or takes it back.
pub(crate) async fn until_degraded(store: &RedisStore, degraded: bool, since: Instant) -> Duration {
    while store.is_degraded() != degraded {
        assert!(since.elapsed() < 2 * PATIENT, "the breaker does not move");
        sleep(millis(1)).await;
    }
    since.elapsed()
}
