//! Stores that keep a bucket in Redis in the ways one finds in the wild.

use redis::aio::MultiplexedConnection;
use tokio::time::{Instant, sleep};
use waterclock::{Algorithm, Answer, Charge, Gcra, Policy, Store, StoreError, Timestamp, Verb};
use waterclock_conformance::real::RedisServer;
use waterclock_core::store::{Decide as _, Logs, State, View};

use crate::clock_steps::{ask_on, exhaust};
use crate::kinds::UNIT;
use crate::oracle::{Bound, Log, expiry, over_admission, thaw};
use crate::scene::{HOUR, SECOND, Traffic, bucket, check, millis, one, units};

/// How the record comes to Redis.
#[derive(Clone, Copy)]
enum Way {
    /// It is read, decided on here, and written back.
    ReadThenWrite,
    /// A script does all of it.
    Script(&'static str),
}

/// A store of one policy, which is one bucket.
#[derive(Clone)]
struct Bucket {
    connection: MultiplexedConnection,
    policy: Policy,
    way: Way,
}

impl Bucket {
    async fn new(server: &RedisServer, policy: Policy, way: Way) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        Self { connection, policy, way }
    }

    fn gcra(&self) -> Gcra {
        match self.policy.limits()[0].algorithm() {
            Algorithm::Gcra(gcra) => *gcra,
            other => panic!("{other:?} is no bucket"),
        }
    }

    /// The answer to a check by the core, from what was found; and what to write.
    fn decide(&self, now_us: u64, found: Option<u64>, cost: u64) -> (Answer, u64) {
        let (now, policy) = (Timestamp::from_micros(now_us), &self.policy);
        let cost = waterclock::Cost::from(cost);
        let (mut words, mut logs) = (vec![0; policy.words()], Logs::new());
        let found_ns = u128::from(found.unwrap_or(now_us)) * 1_000;
        self.gcra().set_full_at(found_ns, &mut words);
        let verdict = policy.judge(View::new(&words, &logs), now, &cost);
        policy.record(&mut State::new(&mut words, &mut logs), now, &cost, verdict);
        let view = View::new(&words, &logs);
        let decision = policy.answer(view, now, &cost, verdict);
        let limits = policy.each(view, now, &cost, verdict).collect();
        let full_at = self.gcra().full_at(&words) / 1_000;
        let answer = Answer::new(decision, limits);
        (answer, u64::try_from(full_at).unwrap())
    }

    async fn read_then_write(&self, key: &[u8], cost: u64) -> Answer {
        let mut connection = self.connection.clone();
        let (seconds, micros): (u64, u64) =
            redis::cmd("TIME").query_async(&mut connection).await.unwrap();
        let found = redis::cmd("GET").arg(key).query_async(&mut connection).await.unwrap();
        let (answer, full_at) = self.decide(seconds * 1_000_000 + micros, found, cost);
        if answer.decision.is_allowed() {
            let mut set = redis::cmd("SET");
            set.arg(key).arg(full_at).query_async::<()>(&mut connection).await.unwrap();
        }
        answer
    }

    async fn run(&self, script: &str, key: &[u8], cost: u64) -> Answer {
        let unit_us = self.gcra().unit_ns().0 / 1_000;
        let mut connection = self.connection.clone();
        let mut eval = redis::cmd("EVAL");
        eval.arg(script).arg(1).arg(key).arg(cost * unit_us).arg(self.gcra().capacity() * unit_us);
        let (now, found): (u64, Option<u64>) = eval.query_async(&mut connection).await.unwrap();
        self.decide(now, found, cost).0
    }
}

impl Store for Bucket {
    async fn set_policy(&self, _: Policy) -> Result<(), StoreError> {
        panic!("its only policy is its own")
    }

    async fn apply(&self, _: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        let (key, cost) = (charges[0].key, charges[0].cost.most());
        Ok(vec![match self.way {
            Way::ReadThenWrite => self.read_then_write(key, cost).await,
            Way::Script(script) => self.run(script, key, cost).await,
        }])
    }
}

/// Atomic, but the record of a clock that was ahead stands for as long as it was.
const NEVER_REDATES: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local found = redis.call('GET', KEYS[1])
    local full = math.max(now, tonumber(found or 0)) + ARGV[1]
    if full <= now + ARGV[2] then
        redis.call('SET', KEYS[1], full, 'PX', math.ceil((full - now) / 1000))
    end
    return {now, found}";

/// Atomic, but with a time to live in whole seconds, rounded down.
const WHOLE_SECONDS: &str = "
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local found = redis.call('GET', KEYS[1])
    local full = math.max(now, tonumber(found or 0)) + ARGV[1]
    if full <= now + ARGV[2] then
        redis.call('SET', KEYS[1], full, 'EX', math.max(1, math.floor((full - now) / 1000000)))
    end
    return {now, found}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_then_write() {
    let server = RedisServer::start();
    let (policy, bound) = bucket(50, SECOND, 50);
    let store = Bucket::new(&server, policy, Way::ReadThenWrite).await;
    let traffic = Traffic::start(&store, "hot", 16, millis(1));
    sleep(millis(300)).await;
    let calls = traffic.stop().await;
    over_admission(&calls, &bound).expect_err("two callers spend the same unit");
}

/// The same traffic with a script: what the oracle complains about is not the traffic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_is_innocent() {
    let server = RedisServer::start();
    let (policy, bound) = bucket(50, SECOND, 50);
    let store = Bucket::new(&server, policy, Way::Script(NEVER_REDATES)).await;
    let traffic = Traffic::start(&store, "hot", 16, millis(1));
    sleep(millis(300)).await;
    over_admission(&traffic.stop().await, &bound).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_set_back_freezes_a_key() {
    let server = RedisServer::start_with_clock();
    let (policy, _) = bucket(5, SECOND, 5);
    let store = Bucket::new(&server, policy, Way::Script(NEVER_REDATES)).await;
    let log = Log::new();
    exhaust(&store, &log, one("key")).await;
    server.step_clock(HOUR, false);
    let stepped = log.now();
    ask_on(&store, &log, one("key"), SECOND).await;
    let complaint = thaw(&log.calls(), stepped, UNIT).expect_err("it is frozen for an hour");
    assert!(complaint.contains("frozen"), "{complaint}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_to_live_in_whole_seconds() {
    let server = RedisServer::start();
    let (policy, bound) = bucket(5, SECOND, 9);
    let store = Bucket::new(&server, policy, Way::Script(WHOLE_SECONDS)).await;
    let (sent, log) = (Instant::now(), Log::new());
    let answer = check(&store, units("key", 9)).await;
    let reset = answer.decision.reset_after();
    let ttl_ms = server.command(&["PTTL", "key"]).as_int();
    expiry(ttl_ms, reset, sent.elapsed()).expect_err("1.8 seconds are not one");
    // What that means: a second later everything is forgotten, and spent again.
    log.check(&store, units("other", 9)).await;
    sleep(SECOND + millis(50)).await;
    log.check(&store, units("other", 9)).await;
    over_admission(&log.calls(), &Bound { extra: 0, ..bound }).expect_err("18 in a second");
}
