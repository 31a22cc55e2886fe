//! The store itself, with something wrong around it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use waterclock::{Answer, Charge, Failure, MemoryStore, Policy, Source, Store, StoreError, Verb};
use waterclock_conformance::real::{Proxy, RedisServer};
use waterclock_redis::{OnStoreError, RedisStore, Serving};

use crate::oracle::{
    Bound, Call, Log, answered_in_time, conservation, false_refusal, over_admission, recovery,
};
use crate::scene::{
    DEADLINE, PATIENT, SECOND, Traffic, asking, bucket, millis, still_bucket, store, units,
    used_of_still_bucket,
};

const DENY: Serving = Serving::new(OnStoreError::Deny);

/// What is wrong.
#[derive(Clone)]
enum Bug {
    /// Nothing.
    None,
    /// Asks again what may have been charged already.
    Retries,
    /// Once it has failed it stays with what stood in for it.
    NeverComesBack(Arc<MemoryStore>, Arc<AtomicBool>),
    /// Waits for a server that does not answer.
    Hangs,
    /// Believes a refusal for longer than it holds.
    Stubborn(Arc<Mutex<Option<(Answer, Instant)>>>),
}

#[derive(Clone)]
struct Bugged(RedisStore, Bug);

impl Store for Bugged {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.0.set_policy(policy).await
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        match &self.1 {
            Bug::None => self.0.apply(verb, charges).await,
            Bug::Retries => match self.0.apply(verb, charges).await {
                Err(error) if error.failure() == Some(Failure::Timeout) => {
                    self.0.apply(verb, charges).await
                }
                answers => answers,
            },
            Bug::NeverComesBack(local, failed) => {
                if !failed.load(Ordering::Relaxed) {
                    let answers = self.0.apply(verb, charges).await;
                    if answers.is_ok() {
                        return answers;
                    }
                    failed.store(true, Ordering::Relaxed);
                }
                let mut answers = local.apply(verb, charges).await?;
                answers.iter_mut().for_each(|answer| answer.source = Source::Local);
                Ok(answers)
            }
            Bug::Hangs => {
                let answers = self.0.apply(verb, charges).await;
                if answers.is_err() {
                    sleep(PATIENT).await;
                }
                answers
            }
            Bug::Stubborn(refusal) => self.refuse_for_too_long(refusal, verb, charges).await,
        }
    }
}

impl Bugged {
    async fn refuse_for_too_long(
        &self,
        known: &Mutex<Option<(Answer, Instant)>>,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        let still_holds = |(_, until): &(Answer, Instant)| Instant::now() < *until;
        let refusal = known.lock().clone().filter(still_holds);
        if let Some((answer, _)) = refusal {
            return Ok(vec![answer.with_source(Source::DeniedCache)]);
        }
        let answers = self.0.apply(verb, charges).await?;
        if !answers[0].decision.is_allowed() {
            *known.lock() = Some((answers[0].clone(), Instant::now() + millis(100)));
        }
        Ok(answers)
    }
}

/// Callers of a store whose Redis is killed for a moment; what they saw, and when it was back.
async fn through_an_outage(
    server: &RedisServer,
    store: &(impl Store + Clone + 'static),
) -> (Vec<Call>, std::time::Duration) {
    let traffic = Traffic::start(store, "hot", 8, millis(2));
    sleep(millis(200)).await;
    server.pause();
    sleep(millis(400)).await;
    server.resume();
    let healed = traffic.log.now();
    sleep(millis(600)).await;
    (traffic.stop().await, healed)
}

/// Two calls for ten units each; the reply to the second is lost, and the network then well again.
async fn lose_a_reply(server: &RedisServer, bug: Bug) -> Result<(), String> {
    let proxy = Proxy::start(server.port());
    let builder = asking(&proxy.url()).serving(DENY).deadline(SECOND);
    let real = store(builder, still_bucket(1_000)).await;
    let (store, log) = (Bugged(real, bug), Log::new());
    log.check(&store, units("key", 10)).await;
    proxy.swallow_replies();
    let heal = async {
        sleep(SECOND / 2).await;
        proxy.pass();
    };
    tokio::join!(log.check(&store, units("key", 10)), heal);
    sleep(millis(20)).await;
    conservation(&log.calls(), used_of_still_bucket(server))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_what_may_have_been_charged() {
    let server = RedisServer::start();
    lose_a_reply(&server, Bug::Retries).await.expect_err("it is charged twice");
}

/// The same without the bug: a reply that was lost is one charge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_itself_charges_once() {
    let server = RedisServer::start();
    lose_a_reply(&server, Bug::None).await.unwrap();
    assert_eq!(used_of_still_bucket(&server), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn allows_what_it_cannot_check() {
    let server = RedisServer::start();
    let (policy, bound) = bucket(50, SECOND, 50);
    let serving = Serving::new(OnStoreError::Allow);
    let store = store(asking(&server.url()).serving(serving), policy).await;
    let (calls, _) = through_an_outage(&server, &store).await;
    let promised = Bound { extra: 2 * bound.capacity, ..bound };
    over_admission(&calls, &promised).expect_err("everything is admitted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serves_the_whole_limit_on_every_node() {
    let server = RedisServer::start();
    let (policy, bound) = bucket(40, SECOND, 40);
    let (log, mut traffic) = (Log::new(), Vec::new());
    for _ in 0..4 {
        let node = store(asking(&server.url()).nodes(1), policy.clone()).await;
        traffic.push(Traffic::start_on(&log, &node, "hot", 4, millis(4)));
    }
    server.pause();
    sleep(millis(500)).await;
    for traffic in traffic {
        traffic.stop().await;
    }
    let promised = Bound { extra: 2 * bound.capacity, ..bound };
    over_admission(&log.calls(), &promised).expect_err("four limits for one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_comes_back() {
    let server = RedisServer::start();
    let (policy, _) = bucket(50, SECOND, 50);
    let local = MemoryStore::default();
    local.set_policy(policy.clone()).await.unwrap();
    let real = store(asking(&server.url()).serving(DENY), policy).await;
    let bug = Bug::NeverComesBack(Arc::new(local), Arc::default());
    let (calls, healed) = through_an_outage(&server, &Bugged(real, bug)).await;
    recovery(&calls, healed).expect_err("it serves from memory for ever");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_for_longer_than_its_deadline() {
    let server = RedisServer::start();
    let (policy, _) = bucket(50, SECOND, 50);
    let real = store(asking(&server.url()).serving(DENY), policy).await;
    let (calls, _) = through_an_outage(&server, &Bugged(real, Bug::Hangs)).await;
    answered_in_time(&calls, DEADLINE).expect_err("five seconds are no deadline");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn believes_a_refusal_for_too_long() {
    let server = RedisServer::start();
    let (policy, bound) = bucket(50, SECOND, 5);
    let real = store(asking(&server.url()).deadline(PATIENT), policy).await;
    let store = Bugged(real, Bug::Stubborn(Arc::default()));
    let traffic = Traffic::start(&store, "hot", 4, millis(2));
    sleep(millis(400)).await;
    let calls = traffic.stop().await;
    over_admission(&calls, &bound).unwrap();
    false_refusal(&calls, &bound).expect_err("a unit returns every 20 ms");
}
