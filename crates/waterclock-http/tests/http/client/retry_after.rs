//! Requests wait as long as servers ask for.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt, service_fn};
use waterclock_http::{RetryAfterError, RetryAfterLayer};

use super::stage::{Diary, MS, SECOND, TokioClock, get};

type Sent = Request<Full<Bytes>>;
type Layered = RetryAfterLayer<Sent, Response<()>>;

const A: &str = "http://a.example/";
const B: &str = "http://b.example/";

fn layer() -> Layered {
    RetryAfterLayer::new().clock(TokioClock::new())
}

/// One answer after the other, as status and `name: value`; 200 when there are no more.
fn server(
    diary: &Diary,
    answers: &[(u16, &'static str)],
) -> impl Service<Sent, Response = Response<()>, Error = Infallible, Future: Send> + Clone + Send + use<>
{
    let answers: Arc<Mutex<VecDeque<_>>> = Arc::new(Mutex::new(answers.iter().copied().collect()));
    let diary = diary.clone();
    service_fn(move |request: Sent| {
        diary.write(request.uri().host().unwrap_or_default());
        let (status, field) = answers.lock().expect("no poison").pop_front().unwrap_or((200, ""));
        let mut response = Response::builder().status(status);
        if let Some((name, value)) = field.split_once(": ") {
            response = response.header(name, value);
        }
        async move { Ok(response.body(()).expect("a response")) }
    })
}

fn times(diary: &Diary) -> Vec<u128> {
    diary.read().into_iter().map(|(_, at)| at).collect()
}

#[tokio::test(start_paused = true)]
async fn later_requests_wait_until_the_server_wants_them() {
    let diary = Diary::new();
    let service = layer().layer(server(&diary, &[(429, "retry-after: 2")]));
    let send = async |uri: &str| service.clone().oneshot(get(uri)).await.map(|r| r.status());
    assert_eq!(send(A).await, Ok(StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(send(B).await, Ok(StatusCode::OK));
    assert_eq!(send(A).await, Ok(StatusCode::OK));
    assert_eq!(send(A).await, Ok(StatusCode::OK));
    let expected = [("a.example", 0), ("b.example", 0), ("a.example", 2_000), ("a.example", 2_000)];
    assert_eq!(diary.read(), expected.map(|(host, at)| (host.to_owned(), at)));
}

#[tokio::test(start_paused = true)]
async fn a_success_that_was_the_last_is_heard_too() {
    for field in
        [r#"ratelimit: "api";r=0;t=3"#, "x-ratelimit-remaining: 0\u{0}x-ratelimit-reset: 3"]
    {
        let diary = Diary::new();
        let fields: Vec<(&str, &str)> =
            field.split('\u{0}').filter_map(|field| field.split_once(": ")).collect();
        let noted = diary.clone();
        let service = layer().layer(service_fn(move |_: Sent| {
            noted.write("sent");
            let mut response = Response::builder();
            for (name, value) in &fields {
                response = response.header(*name, *value);
            }
            async move { Ok::<_, Infallible>(response.body(()).expect("a response")) }
        }));
        for _ in 0..3 {
            service.clone().oneshot(get(A)).await.expect("a response");
        }
        assert_eq!(times(&diary), [0, 3_000, 6_000], "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_sent_again_as_often_as_allowed() {
    let refusals =
        [(429, "retry-after: 1"), (503, "retry-after: 2"), (429, r#"ratelimit: "a";r=0;t=3"#)];
    for (retries, status, expected) in [
        (0, 429, &[0][..]),
        (1, 503, &[0, 1_000]),
        (2, 429, &[0, 1_000, 3_000]),
        (3, 200, &[0, 1_000, 3_000, 6_000]),
        (9, 200, &[0, 1_000, 3_000, 6_000]),
    ] {
        let diary = Diary::new();
        let service = layer().retries(retries).layer(server(&diary, &refusals));
        let response = service.oneshot(get(A)).await.expect("a response");
        assert_eq!(response.status(), status, "{retries} retries");
        assert_eq!(times(&diary), expected, "{retries} retries");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_sends_the_whole_request() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let service = layer().retries(1).layer(service_fn(move |request: Sent| {
        let (parts, body) = request.into_parts();
        let extension = parts.extensions.get::<u64>().copied();
        let seen =
            format!("{} {} {:?} {extension:?} {body:?}", parts.method, parts.uri, parts.headers);
        noted.lock().expect("no poison").push(seen);
        let response = Response::builder().status(429).header("retry-after", "1").body(());
        async { Ok::<_, Infallible>(response.expect("a response")) }
    }));
    let request = Request::put(A).header("x-one", "1").extension(7_u64);
    service
        .oneshot(request.body(Full::from("body")).expect("a request"))
        .await
        .expect("a response");
    let seen = seen.lock().expect("no poison");
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].contains("Some(7)") && seen[0].contains("body"), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn not_everything_is_sent_again() {
    // A failure, an overload that does not say when, a refusal that does not either.
    for answer in
        [(500, "retry-after: 1"), (503, ""), (429, ""), (503, r#"ratelimit: "a";r=0;t=1"#)]
    {
        let diary = Diary::new();
        let service = layer().retries(5).layer(server(&diary, &[answer]));
        let response = service.oneshot(get(A)).await.expect("a response");
        assert_eq!((response.status().as_u16(), times(&diary)), (answer.0, vec![0]), "{answer:?}");
    }
    // A request of which there is no copy.
    let diary = Diary::new();
    let service =
        layer().retries_with(5, |_| None).layer(server(&diary, &[(429, "retry-after: 1")]));
    assert_eq!(service.oneshot(get(A)).await.map(|r| r.status().as_u16()), Ok(429));
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_deadline_is_not_waited_for() {
    let (diary, start) = (Diary::new(), Instant::now());
    let service = layer().within(5 * SECOND).retries(3);
    let service =
        service.layer(server(&diary, &[(429, "retry-after: 3"), (429, "retry-after: 3")]));
    // The first wait is in time, the second together with it is not: the refusal is the response.
    let response = service.clone().oneshot(get(A)).await.expect("a response");
    assert_eq!((response.status().as_u16(), start.elapsed().as_millis()), (429, 3_000));
    // Three seconds are in time for the next one.
    assert_eq!(service.clone().oneshot(get(A)).await.map(|r| r.status().as_u16()), Ok(200));
    assert_eq!(start.elapsed().as_millis(), 6_000);

    let impatient = layer().within(SECOND).layer(server(&diary, &[(429, "retry-after: 3")]));
    assert_eq!(impatient.clone().oneshot(get(A)).await.map(|r| r.status().as_u16()), Ok(429));
    let error = impatient.clone().oneshot(get(A)).await.expect_err("too early");
    assert_eq!(error, RetryAfterError::TooEarly(3 * SECOND));
    assert!(error.to_string().contains("another 3s"), "{error}");
    assert_eq!(start.elapsed().as_millis(), 6_000);
    sleep(2 * SECOND).await;
    assert_eq!(impatient.oneshot(get(A)).await.map(|r| r.status().as_u16()), Ok(200));
}

/// Answers come when they like: each request says in `x-after` how many seconds its first answer takes.
async fn with_slow_server(
    deadline: Duration,
    answers: &[(u16, &'static str)],
    after: &[&'static str],
) -> Vec<(u16, u128)> {
    let (diary, start) = (Diary::new(), Instant::now());
    let quick = server(&diary, answers);
    let slow = service_fn(move |request: Sent| {
        let seconds = request.headers()["x-after"].to_str().expect("a text").parse::<u64>();
        let (quick, delay) = (quick.clone(), SECOND * u32::from(start.elapsed() < SECOND));
        async move {
            let response = quick.oneshot(request).await;
            sleep(delay * u32::try_from(seconds.expect("a number")).expect("small")).await;
            response
        }
    });
    let service = layer().within(deadline).retries(1).layer(slow);
    let mut calls = Vec::new();
    for after in after {
        let mut request = get(A);
        request.headers_mut().insert("x-after", after.parse().expect("a value"));
        let call = service.clone().oneshot(request);
        calls.push(tokio::spawn(async move {
            let response = call.await.expect("a response");
            (response.status().as_u16(), start.elapsed().as_millis())
        }));
    }
    let mut ended = Vec::new();
    for call in calls {
        ended.push(call.await.expect("no panic"));
    }
    ended
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_lost_because_other_requests_must_wait_longer() {
    // The second is asked to wait a second after the first was asked to wait a minute.
    let answers = [(503, "retry-after: 60"), (429, "retry-after: 1")];
    let ended = with_slow_server(10 * SECOND, &answers, &["1", "2"]).await;
    assert_eq!(ended, [(503, 1_000), (429, 2_000)]);
    // The second waits for three seconds when the first is asked to wait a minute.
    let answers = [(503, "retry-after: 60"), (429, "retry-after: 3")];
    let ended = with_slow_server(10 * SECOND, &answers, &["2", "0"]).await;
    assert_eq!(ended, [(503, 2_000), (429, 3_000)]);
    // With a later deadline, both are sent again after the minute.
    let ended = with_slow_server(100 * SECOND, &answers, &["2", "0"]).await;
    assert_eq!(ended, [(200, 62_000), (200, 62_000)]);
}

#[tokio::test(start_paused = true)]
async fn absurd_waits_are_cut() {
    for (layer, expected) in [(layer(), 3_600_000), (layer().max_wait(10 * SECOND), 10_000)] {
        let diary = Diary::new();
        let service =
            layer.retries(1).layer(server(&diary, &[(429, "retry-after: 99999999999999999999")]));
        assert_eq!(service.oneshot(get(A)).await.map(|r| r.status().as_u16()), Ok(200));
        assert_eq!(times(&diary), [0, expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn jitter_spreads_waiting_requests() {
    let diary = Diary::new();
    let service = layer().jitter(SECOND).layer(server(&diary, &[(503, "retry-after: 2")]));
    service.clone().oneshot(get(A)).await.expect("a response");
    let mut calls = JoinSet::new();
    for _ in 0..200 {
        calls.spawn(service.clone().oneshot(get(A)));
    }
    calls.join_all().await;
    let times = times(&diary).split_off(1);
    assert!(times.iter().all(|at| (2_000..=3_001).contains(at)), "{times:?}");
    assert!(times.iter().any(|at| *at < 2_200) && times.iter().any(|at| *at > 2_800), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_extended_by_a_later_response() {
    let diary = Diary::new();
    let slow = server(&diary, &[(503, "retry-after: 10"), (429, "retry-after: 2")]);
    // What was under way already when the other was refused is answered a second later.
    let slow = service_fn(move |request: Sent| {
        let (slow, late) = (slow.clone(), request.headers().contains_key("x-late"));
        async move {
            let response = slow.oneshot(request).await;
            sleep(if late { SECOND } else { Duration::ZERO }).await;
            response
        }
    });
    let service = layer().layer(slow);
    let send = |request| tokio::spawn(service.clone().oneshot(request));
    let mut late = get(A);
    late.headers_mut().insert("x-late", "1".parse().expect("a value"));
    let (late, first) = (send(late), send(get(A)));
    first.await.expect("no panic").expect("a response");
    let waiting = send(get(A));
    late.await.expect("no panic").expect("a response");
    waiting.await.expect("no panic").expect("a response");
    assert_eq!(times(&diary), [0, 0, 11_000]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_request_releases_the_client() {
    let diary = Diary::new();
    let one_at_a_time = ConcurrencyLimit::new(server(&diary, &[(429, "retry-after: 2")]), 1);
    let mut service = layer().retries(1).layer(one_at_a_time);
    for uri in [A, A, B, A] {
        tokio::spawn(service.ready().await.expect("ready").call(get(uri)));
        sleep(MS).await;
    }
    sleep(5 * SECOND).await;
    let hosts: Vec<String> = diary.read().into_iter().map(|(host, _)| host).collect();
    assert_eq!(hosts, ["a.example", "b.example", "a.example", "a.example", "a.example"]);
    assert!(times(&diary)[1] < 100, "{:?}", times(&diary));
    // It was there all the time: a service that is kept must not keep the only permit.
    drop(service);
}
