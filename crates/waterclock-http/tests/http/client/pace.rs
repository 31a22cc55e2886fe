//! Requests wait for their turn, by a limiter of this process.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt, service_fn};
use waterclock::{FixedWindow, KeyedLimiter, Limit, Mode, Policy, WaitError};
use waterclock_http::{PaceError, PaceLayer};

use super::stage::{Diary, MS, SECOND, TokioClock, get, recorder};

type Limiter = KeyedLimiter<String, TokioClock>;

fn limiter(policy: impl Into<Policy>) -> Arc<Limiter> {
    Arc::new(KeyedLimiter::builder(policy).clock(TokioClock::new()).build())
}

/// Requests are their own key, up to the first `-`.
fn layer(limiter: &Arc<Limiter>) -> PaceLayer<String> {
    let key = |request: &String| request.split('-').next().unwrap_or_default().to_owned();
    PaceLayer::with_key(Arc::clone(limiter), key)
}

/// Sends requests in order, without waiting for responses.
async fn send_all(
    pace: impl Service<String, Response = (), Error = PaceError<Infallible>, Future: Send>
    + Clone
    + Send
    + 'static,
    requests: impl IntoIterator<Item = String>,
) -> Vec<(String, Result<(), PaceError<Infallible>>)> {
    let mut calls = JoinSet::new();
    for request in requests {
        let call = pace.clone().oneshot(request.clone());
        calls.spawn(async move { (request, call.await) });
        // Each is polled once before the next is sent.
        tokio::task::yield_now().await;
    }
    calls.join_all().await
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_are_sent_in_order_at_the_rate() {
    let diary = Diary::new();
    let pace = layer(&limiter(Limit::per_second(10).with_capacity(1))).layer(recorder(&diary));
    let requests: Vec<String> = (0..30).map(|number| format!("a-{number}")).collect();
    let results = send_all(pace, requests.clone()).await;
    assert!(results.iter().all(|(_, result)| result.is_ok()), "{results:?}");
    let expected: Vec<(String, u128)> = requests.into_iter().zip((0..).step_by(100)).collect();
    assert_eq!(diary.read(), expected);
}

#[tokio::test(start_paused = true)]
async fn keys_do_not_wait_for_each_other() {
    let diary = Diary::new();
    let pace = layer(&limiter(Limit::per_second(1))).layer(recorder(&diary));
    let requests = ["a-1", "a-2", "b-1", "c-1", "a-3"];
    send_all(pace, requests.map(str::to_owned)).await;
    let expected = [("a-1", 0), ("b-1", 0), ("c-1", 0), ("a-2", 1_000), ("a-3", 2_000)];
    assert_eq!(diary.read(), expected.map(|(what, at)| (what.to_owned(), at)));
}

#[tokio::test(start_paused = true)]
async fn http_requests_go_by_their_authority() {
    let diary = Diary::new();
    let start = Instant::now();
    let layer = PaceLayer::new(limiter(Limit::per_second(1)));
    let pace = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(()) }));
    let send = async |uri: &str| {
        pace.clone().oneshot(get(uri)).await.expect("a turn");
        diary.write(uri);
    };
    send("http://one.example/a").await;
    send("http://two.example/a").await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    send("http://ONE.example:80/b").await;
    assert_eq!(start.elapsed().as_millis(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_cannot_be_kept_fails_at_once() {
    let (diary, limiter) = (Diary::new(), limiter(Limit::per_second(1)));
    let pace = layer(&limiter).within(500 * MS).layer(recorder(&diary));
    assert_eq!(pace.clone().oneshot("a-1".to_owned()).await, Ok(()));
    let start = Instant::now();
    let error = pace.clone().oneshot("a-2".to_owned()).await.expect_err("too late");
    assert_eq!(error, PaceError::Wait(WaitError::Deadline));
    assert_eq!(start.elapsed(), Duration::ZERO);
    let source = error.source().and_then(|source| source.downcast_ref::<WaitError>());
    assert_eq!(source, Some(&WaitError::Deadline));
    assert!(error.to_string().starts_with("the request was not sent: "), "{error}");
    // Nothing was charged for it.
    sleep(SECOND).await;
    assert_eq!(pace.oneshot("a-3".to_owned()).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_cost_above_the_limit_never_passes_and_none_at_all_never_waits() {
    let (diary, limiter) = (Diary::new(), limiter(Limit::per_second(5)));
    let cost =
        |request: &String| request.split('-').nth(1).and_then(|n| n.parse().ok()).unwrap_or(1);
    let pace = layer(&limiter).cost_of(cost).layer(recorder(&diary));
    let send = |request: &str| pace.clone().oneshot(request.to_owned());
    assert_eq!(send("a-6").await, Err(PaceError::Wait(WaitError::Never)));
    assert_eq!(send("a-5").await, Ok(()));
    assert_eq!(send("a-0").await, Ok(()));
    assert_eq!(diary.read(), [("a-5".to_owned(), 0), ("a-0".to_owned(), 0)]);
    assert_eq!(send("a-2").await, Ok(()));
    assert_eq!(diary.read().last(), Some(&("a-2".to_owned(), 400)));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_the_line() {
    let (diary, limiter) = (Diary::new(), limiter(Limit::per_second(1)));
    let pace = layer(&limiter).layer(recorder(&diary));
    let spawn = |request: &str| tokio::spawn(pace.clone().oneshot(request.to_owned()));
    let [first, second, third, fourth] = ["a-1", "a-2", "a-3", "a-4"].map(spawn);
    sleep(500 * MS).await;
    // Both the first in line and one further back.
    second.abort();
    third.abort();
    first.await.expect("no panic").expect("a turn");
    fourth.await.expect("no panic").expect("a turn");
    assert_eq!(diary.read(), [("a-1".to_owned(), 0), ("a-4".to_owned(), 1_000)]);
    assert!(second.await.is_err_and(|error| error.is_cancelled()));
}

#[tokio::test(start_paused = true)]
async fn jitter_is_only_ever_added() {
    let diary = Diary::new();
    let limiter = limiter(Limit::per_second(10).with_capacity(1));
    let pace = layer(&limiter).jitter(60 * MS).layer(recorder(&diary));
    send_all(pace, (0..200).map(|number| format!("a-{number}"))).await;
    let times: Vec<u128> = diary.read().into_iter().map(|(_, at)| at).collect();
    let gaps: Vec<u128> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Tokio rounds a timer up to the next millisecond.
    assert!(gaps.iter().all(|gap| (100..=162).contains(gap)), "{gaps:?}");
    assert!(gaps.iter().any(|gap| *gap < 115) && gaps.iter().any(|gap| *gap > 145), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn a_full_line_turns_away() {
    let diary = Diary::new();
    let pace = layer(&limiter(Limit::per_second(1))).backlog(1).layer(recorder(&diary));
    let results = send_all(pace, (1..=5).map(|number| format!("a-{number}"))).await;
    let full = Err(PaceError::Wait(WaitError::Backlog));
    let turned_away: Vec<&String> =
        results.iter().filter(|(_, result)| *result == full).map(|(request, _)| request).collect();
    assert_eq!(turned_away, ["a-4", "a-5"]);
    let passed: Vec<String> = diary.read().into_iter().map(|(request, _)| request).collect();
    assert_eq!(passed, ["a-1", "a-2", "a-3"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_request_releases_the_client() {
    let diary = Diary::new();
    let one_at_a_time = ConcurrencyLimit::new(recorder(&diary), 1);
    let mut pace = layer(&limiter(Limit::per_second(1))).layer(one_at_a_time);
    for request in ["a-1", "a-2", "b-1", "a-3"] {
        let call = pace.ready().await.expect("ready").call(request.to_owned());
        tokio::spawn(call);
        tokio::task::yield_now().await;
    }
    assert_eq!(diary.read(), [("a-1".to_owned(), 0), ("b-1".to_owned(), 0)]);
    sleep(3 * SECOND).await;
    let late = [("a-2".to_owned(), 1_000), ("a-3".to_owned(), 2_000)];
    assert_eq!(diary.read().split_off(2), late);
    // It was there all the time: a service that is kept must not keep the only permit.
    drop(pace);
}

#[tokio::test(start_paused = true)]
async fn partial_grants_and_counted_refusals_cost_a_wait_nothing() {
    let window = || FixedWindow::new(10, SECOND).expect("a window").with_name("second");
    for mode in [Mode::Partial, Mode::CountRefusals] {
        let policy = Policy::new("api", [window()]).and_then(|policy| policy.with_mode(mode));
        let (diary, limiter) = (Diary::new(), limiter(policy.expect("a policy")));
        let pace = layer(&limiter).cost_of(|_| 4).layer(recorder(&diary));
        let requests = (1..=4).map(|number| format!("a-{number}"));
        let sending = tokio::spawn(send_all(pace, requests.collect::<Vec<_>>()));
        sleep(500 * MS).await;
        assert!(limiter.peek_n("a", 2).is_allowed(), "{mode:?}");
        sending.await.expect("no panic");
        // Two of four fit into a window of ten, whatever else was tried.
        let times: Vec<u128> = diary.read().into_iter().map(|(_, at)| at).collect();
        assert_eq!(times, [0, 0, 1_000, 1_000], "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_client_come_through() {
    let broken = service_fn(|_: String| async { Err::<(), _>(std::io::Error::other("broken")) });
    let pace = layer(&limiter(Limit::per_second(1))).layer(broken);
    for request in ["a-1", "a-2"] {
        let error = pace.clone().oneshot(request.to_owned()).await.expect_err("broken");
        assert!(matches!(error, PaceError::Inner(_)), "{error:?}");
        assert_eq!(error.to_string(), "broken");
        assert!(error.source().is_some_and(|source| source.is::<std::io::Error>()));
    }
}
