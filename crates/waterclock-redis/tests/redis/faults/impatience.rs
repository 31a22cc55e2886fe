//! Callers that wait for less time than the store's own deadline. That they give up is no failure of the server; a
//! server that answers none of them is one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use waterclock::{Failure, Source, Store, Verb};
use waterclock_conformance::real::{Proxy, RedisServer};
use waterclock_redis::{OnStoreError, RedisStore, Serving};

use super::DENY;
use crate::oracle::Log;
use crate::scene::{
    PATIENT, SECOND, asking, millis, one, still_bucket, store, until_degraded, used_of_still_bucket,
};

/// How long an impatient caller waits: as long as the server lets a call of Envoy wait.
const IMPATIENT: Duration = Duration::from_millis(15);
/// Longer than that, and far less than a patient caller waits on a busy machine.
const LATENCY: Duration = Duration::from_millis(30);
const LOCAL: Serving = Serving::new(OnStoreError::Local);

/// Impatient callers that ask again and again, and what they were answered.
struct Impatient {
    stop: Arc<AtomicBool>,
    callers: JoinSet<Vec<Result<Source, Failure>>>,
}

impl Impatient {
    fn start(store: &RedisStore, callers: usize, pause: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = JoinSet::new();
        for _ in 0..callers {
            let (store, stop) = (store.clone(), Arc::clone(&stop));
            all.spawn(async move {
                let mut answers = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let answer = store.apply_within(IMPATIENT, Verb::Check, &[one("key")]).await;
                    let source = answer.map(|answers| answers[0].source);
                    answers.push(source.map_err(|error| error.failure().unwrap()));
                    sleep(pause).await;
                }
                answers
            });
        }
        Self { stop, callers: all }
    }

    async fn stop(self) -> Vec<Result<Source, Failure>> {
        self.stop.store(true, Ordering::Relaxed);
        self.callers.join_all().await.concat()
    }
}

struct Scene {
    server: RedisServer,
    proxy: Proxy,
    store: RedisStore,
}

impl Scene {
    /// A server far away.
    async fn new(serving: Serving, deadline: Duration) -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        let builder = asking(&proxy.url()).serving(serving).deadline(deadline);
        let store = store(builder, still_bucket(1_000_000)).await;
        proxy.latency(LATENCY);
        Self { server, proxy, store }
    }
}

/// Beside so many impatient callers, every patient one is answered by the server.
async fn patient_beside(impatient: usize) {
    let scene = Scene::new(LOCAL, SECOND).await;
    let others = Impatient::start(&scene.store, impatient, millis(1));
    let log = Log::new();
    while log.now() < 2 * SECOND {
        let call = log.check(&scene.store, one("key")).await;
        assert_eq!(call.source(), Some(Source::Authoritative), "{call:?}");
    }
    let answers = others.stop().await;
    let given_up = answers.iter().filter(|answer| **answer == Ok(Source::Local)).count();
    assert_eq!(given_up, answers.len(), "no answer comes in time: {answers:?}");
    assert!(given_up > 20 && !scene.store.is_degraded(), "{given_up}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patient_callers_beside_one() {
    patient_beside(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patient_callers_beside_many() {
    patient_beside(16).await;
}

/// A reply whose caller has given up is a success: the breaker stays closed, and the connection is kept.
async fn only_impatient(callers: usize) {
    let scene = Scene::new(DENY, SECOND).await;
    let before = scene.proxy.connections();
    let others = Impatient::start(&scene.store, callers, millis(1));
    let start = Instant::now();
    // Longer than the silence that opens a breaker.
    while start.elapsed() < 3 * SECOND {
        assert!(!scene.store.is_degraded(), "after {:?}", start.elapsed());
        sleep(millis(5)).await;
    }
    let answers = others.stop().await;
    assert!(answers.iter().all(|answer| *answer == Err(Failure::Timeout)), "{answers:?}");
    assert_eq!(scene.proxy.connections(), before);
    let log = Log::new();
    let call = log.check(&scene.store, one("key")).await;
    assert_eq!(call.source(), Some(Source::Authoritative), "{call:?}");
    // What was sent may have been charged, and was not sent again.
    let used = used_of_still_bucket(&scene.server);
    assert!((1..=1 + answers.len() as u64).contains(&used), "{used} of {}", answers.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_impatient_caller() {
    only_impatient(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_impatient_callers() {
    only_impatient(16).await;
}

/// A server that is really silent is given up, although no caller waits until the store's deadline.
async fn silent(callers: usize, pause: Duration) {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).serving(DENY), still_bucket(1_000_000)).await;
    let others = Impatient::start(&store, callers, pause);
    sleep(millis(200)).await;
    let fault = Instant::now();
    server.pause();
    let opened = until_degraded(&store, true, fault).await;
    println!("SIGSTOP, {callers} impatient callers: breaker open after {opened:?}");
    assert!(opened < PATIENT, "{opened:?}");
    server.resume();
    until_degraded(&store, false, Instant::now()).await;
    others.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_for_one() {
    silent(1, millis(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_for_one_that_rarely_asks() {
    silent(1, millis(300)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_for_many() {
    silent(16, millis(1)).await;
}
