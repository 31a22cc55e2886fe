//! Requests wait for their turn, by a store that several processes share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tower::{Layer, ServiceExt};
use waterclock::{
    Answer, Charge, Failure, FixedWindow, Limit, MemoryStore, Mode, Policy, Store, StoreError,
    Verb, WaitError,
};
use waterclock_http::{PaceError, PaceLayer, Pacer};

use super::stage::{Diary, MS, SECOND, TokioClock, recorder};

/// A store across a network: it takes a millisecond to answer, or up to `longest`.
#[derive(Clone)]
struct Far {
    store: Arc<MemoryStore<TokioClock>>,
    asked: Arc<AtomicUsize>,
    /// How many wait for an answer now, and at most so far.
    asking: Arc<(AtomicUsize, AtomicUsize)>,
    longest: Duration,
    fails: bool,
}

impl Far {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::new(1_000, TokioClock::new()));
        Self { store, asked: Arc::default(), asking: Arc::default(), longest: MS, fails: false }
    }
}

impl Store for Far {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.store.set_policy(policy).await
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (now, most) = &*self.asking;
        most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        sleep(MS.max(self.longest.mul_f64(fastrand::f64()))).await;
        now.fetch_sub(1, Ordering::Relaxed);
        if self.fails {
            return Err(StoreError::failed(Failure::Timeout, "no answer"));
        }
        self.store.apply(verb, charges).await
    }
}

fn policy(limit: impl Into<Limit>) -> Policy {
    Policy::new("outgoing", [limit.into()]).expect("a policy")
}

async fn layer(store: &Far, limit: impl Into<Limit>) -> PaceLayer<String> {
    let pacer = Pacer::shared(store.clone(), policy(limit)).await.expect("a pacer");
    PaceLayer::with_key(pacer, |_| "api.example".to_owned()).clock(TokioClock::new())
}

#[tokio::test(start_paused = true)]
async fn processes_together_keep_to_the_limit_and_each_in_order() {
    let (store, diary) = (Far::new(), Diary::new());
    let mut calls = JoinSet::new();
    for process in ["a", "b", "c"] {
        let pace =
            layer(&store, Limit::per_second(10).with_capacity(2)).await.layer(recorder(&diary));
        for number in 0..20 {
            calls.spawn(pace.clone().oneshot(format!("{process}-{number:02}")));
        }
    }
    for result in calls.join_all().await {
        assert_eq!(result, Ok(()));
    }
    let entries = diary.read();
    assert_eq!(entries.len(), 60);
    for (first, (_, from)) in entries.iter().enumerate() {
        // Two at once and ten per second; a millisecond on the way.
        let most = |span: u128| 2 + (span + 2) / 100;
        for (count, (_, to)) in entries[first..].iter().enumerate() {
            assert!((count as u128) < most(to - from), "{entries:?}");
        }
    }
    let last = entries.last().map(|(_, at)| *at).expect("an entry");
    assert!((5_800..6_500).contains(&last), "{last}");
    for process in ["a", "b", "c"] {
        let own: Vec<&String> =
            entries.iter().map(|(what, _)| what).filter(|what| what.starts_with(process)).collect();
        assert!(own.is_sorted(), "{own:?}");
    }
    // Only the head of each process's queue asks: for every turn that one gets, the others are refused.
    let asked = store.asked.load(Ordering::Relaxed);
    assert!(asked <= 60 * 4, "{asked}");
    assert!(store.asking.1.load(Ordering::Relaxed) <= 3, "one call per process at a time");
}

/// Answers overtake each other; callers do not.
#[tokio::test(start_paused = true)]
async fn the_order_is_that_of_arrival_and_not_of_answers() {
    let (mut store, diary) = (Far::new(), Diary::new());
    store.longest = 50 * MS;
    let pace =
        layer(&store, Limit::per_second(100).with_capacity(150)).await.layer(recorder(&diary));
    // So many in one task that tokio would have it pause in between.
    let calls = (0..300).map(|number| pace.clone().oneshot(format!("{number:03}")));
    let sending = tokio::spawn(join_all(calls));
    tokio::task::yield_now().await;
    for number in 300..400 {
        tokio::spawn(pace.clone().oneshot(format!("{number:03}")));
    }
    let last = pace.oneshot("400".to_owned());
    assert!(sending.await.expect("no panic").into_iter().all(|result| result.is_ok()));
    assert_eq!(last.await, Ok(()));
    let order: Vec<String> = diary.read().into_iter().map(|(what, _)| what).collect();
    assert!(order.is_sorted() && order.len() == 401, "{order:?}");
    assert_eq!(store.asking.1.load(Ordering::Relaxed), 1, "one question at a time");
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_vain_fails_at_once() {
    let (store, diary) = (Far::new(), Diary::new());
    let pace = layer(&store, Limit::per_second(2).with_capacity(2)).await.within(300 * MS);
    let pace = pace.cost_of(|request| request.len() as u64).layer(recorder(&diary));
    let send = |request: &str| pace.clone().oneshot(request.to_owned());
    assert_eq!(send("333").await, Err(PaceError::Wait(WaitError::Never)));
    assert_eq!(send("22").await, Ok(()));
    let start = Instant::now();
    assert_eq!(send("1").await, Err(PaceError::Wait(WaitError::Deadline)));
    assert!(start.elapsed() <= 5 * MS, "{:?}", start.elapsed());
    sleep(200 * MS).await;
    assert_eq!(send("1").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_the_line_too() {
    let (store, diary) = (Far::new(), Diary::new());
    let patient = layer(&store, Limit::per_minute(1).with_capacity(1)).await;
    let impatient = patient.clone().within(2 * SECOND).layer(recorder(&diary));
    let patient = patient.layer(recorder(&diary));
    assert_eq!(patient.clone().oneshot("1".to_owned()).await, Ok(()));
    let first_in_line = tokio::spawn(patient.oneshot("2".to_owned()));
    sleep(10 * MS).await;
    let start = Instant::now();
    let late = impatient.oneshot("3".to_owned()).await;
    assert_eq!(late, Err(PaceError::Wait(WaitError::Deadline)));
    let elapsed = start.elapsed();
    assert!((2 * SECOND..2 * SECOND + 5 * MS).contains(&elapsed), "{elapsed:?}");
    assert_eq!(first_in_line.await.expect("no panic"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_the_line_and_a_full_one_turns_away() {
    let (store, diary) = (Far::new(), Diary::new());
    let pace = layer(&store, Limit::per_second(1)).await.backlog(1).layer(recorder(&diary));
    let mut calls = Vec::new();
    for number in 0..4 {
        calls.push(tokio::spawn(pace.clone().oneshot(number.to_string())));
        sleep(10 * MS).await;
    }
    // One has passed, two wait, and for the fourth there is no room.
    let fourth = calls.pop().expect("four").await.expect("no panic");
    assert_eq!(fourth, Err(PaceError::Wait(WaitError::Backlog)));
    calls.remove(1).abort();
    for call in calls {
        assert_eq!(call.await.expect("no panic"), Ok(()));
    }
    let passed: Vec<String> = diary.read().into_iter().map(|(what, _)| what).collect();
    assert_eq!(passed, ["0", "2"]);
    let last = diary.read().last().map(|(_, at)| *at).expect("an entry");
    assert!((1_000..1_100).contains(&last), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_store_in_this_process_answers_without_a_wait() {
    let store = MemoryStore::new(1_000, TokioClock::new());
    let pacer = Pacer::shared(store, policy(Limit::per_second(1))).await.expect("a pacer");
    let diary = Diary::new();
    let pace = PaceLayer::with_key(pacer, |_: &String| String::new()).layer(recorder(&diary));
    for request in ["1", "2", "3"] {
        assert_eq!(pace.clone().oneshot(request.to_owned()).await, Ok(()));
    }
    let times: Vec<u128> = diary.read().into_iter().map(|(_, at)| at).collect();
    assert_eq!(times, [0, 1_000, 2_000]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_fails_the_request_once() {
    let (mut store, diary) = (Far::new(), Diary::new());
    store.fails = true;
    let pace = layer(&store, Limit::per_second(1)).await.layer(recorder(&diary));
    let error = pace.oneshot("1".to_owned()).await.expect_err("no answer");
    assert!(matches!(error, PaceError::Store(_)), "{error:?}");
    assert!(error.to_string().contains("no answer"), "{error}");
    assert_eq!(store.asked.load(Ordering::Relaxed), 1);
    assert!(diary.read().is_empty());
}

#[tokio::test]
async fn only_whole_requests_can_be_paced() {
    for mode in [Mode::Partial, Mode::CountRefusals] {
        let window = FixedWindow::new(10, SECOND).expect("a window").with_name("second");
        let policy = Policy::new("outgoing", [window]).and_then(|policy| policy.with_mode(mode));
        let error = Pacer::shared(Far::new(), policy.expect("a policy")).await.expect_err("unfit");
        assert!(error.to_string().contains("`outgoing`"), "{error}");
        assert!(error.to_string().contains("binary"), "{error}");
    }
}
