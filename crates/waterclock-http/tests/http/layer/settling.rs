//! Costs that are known only afterwards.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use tower::{Layer, ServiceExt, service_fn};
use waterclock::store::now_or_never;
use waterclock::{
    Answer, Charge, Concurrency, ErrorRate, Failure, FixedWindow, Hold, ManualClock, MemoryStore,
    Policy, Reserved, Rollout, Settled, Settlement, Store, StoreError, Verb,
};
use waterclock_http::{Ending, Exchange, Key, RateLimitLayer, Rule};

use super::stage::{Remote, memory, policy};

fn left(store: &MemoryStore<ManualClock>) -> Option<u64> {
    now_or_never(store.peek_n("api", b"", 0)).expect("memory answers at once").unwrap().remaining()
}

async fn layered<S: Store + 'static>(store: S, rule: Rule) -> RateLimitLayer<S> {
    let builder = RateLimitLayer::builder(store).rule(rule).key(Key::everyone());
    builder.build().await.expect("a valid layer")
}

fn request() -> Request<()> {
    Request::new(())
}

/// The status of a response, where the service answers with this one.
async fn status_of<S: Store + 'static>(layer: &RateLimitLayer<S>, status: u16) -> u16 {
    let served = service_fn(move |_: Request<()>| async move {
        let response = Response::builder().status(status).body(Full::<Bytes>::default());
        Ok::<_, Infallible>(response.expect("a valid status"))
    });
    let Ok(response) = layer.layer(served).oneshot(request()).await;
    response.status().as_u16()
}

/// With a remote store, settling continues after the response.
async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..30_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never happened");
}

#[tokio::test]
async fn only_failures_count() {
    let (store, _) = memory();
    let rule = Rule::new(policy("api", 2)).settle(|exchange| u64::from(exchange.is_failure()));
    let layer = layered(store.clone(), rule).await;
    for _ in 0..5 {
        assert_eq!(status_of(&layer, 200).await, 200);
        assert_eq!(left(&store), Some(2));
    }
    for (served, status) in [(401, 401), (500, 500), (200, 429)] {
        assert_eq!(status_of(&layer, served).await, status);
    }
    assert_eq!(left(&store), Some(0));
}

#[tokio::test]
async fn a_service_that_breaks_has_failed() {
    let (store, _) = memory();
    let rule = Rule::new(policy("api", 2)).settle(|exchange| {
        assert_eq!((exchange.status(), exchange.ending()), (None, Ending::Failed));
        u64::from(exchange.is_failure())
    });
    let broken = service_fn(|_: Request<()>| async { Err::<Response<Full<Bytes>>, _>("broken") });
    let layer = layered(store.clone(), rule).await;
    assert_eq!(layer.layer(broken).oneshot(request()).await.err(), Some("broken"));
    assert_eq!(left(&store), Some(1));
}

/// The frames of a response in gRPC's manner: data, then trailers.
fn frames(
    trailers: &[(&'static str, &'static str)],
) -> StreamBody<impl futures_util::Stream<Item = Result<Frame<Bytes>, &'static str>> + Unpin + use<>>
{
    let mut ends = HeaderMap::new();
    for (name, value) in trailers {
        ends.insert(*name, value.parse().expect("a valid value"));
    }
    let data = [Ok(Frame::data(Bytes::from("12345"))), Ok(Frame::data(Bytes::from("678")))];
    let end = match trailers {
        [("broken", _)] => Err("broken"),
        _ => Ok(Frame::trailers(ends)),
    };
    StreamBody::new(futures_util::stream::iter(data.into_iter().chain([end])))
}

/// Settles by bytes, and records the exchanges.
async fn by_bytes<S: Store + 'static>(seen: &MemoryStore<ManualClock>, store: S) {
    let exchanges: Arc<Mutex<Vec<Exchange>>> = Arc::default();
    let seen_exchanges = Arc::clone(&exchanges);
    let rule = Rule::new(policy("api", 20)).cost(6).settle(move |exchange| {
        seen_exchanges.lock().unwrap().push(exchange.clone());
        exchange.bytes()
    });
    let layer = layered(store, rule).await;
    let serve = |trailers: &'static [(&str, &str)]| {
        let served = service_fn(move |_: Request<()>| async move {
            Ok::<_, Infallible>(Response::new(frames(trailers)))
        });
        layer.layer(served).oneshot(request())
    };
    // More than was reserved.
    let Ok(response) = serve(&[("grpc-status", "5")]).await;
    assert_eq!(left(seen), Some(14));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "12345678");
    until(|| left(seen) == Some(12)).await;
    // Less: the client left after the first frame.
    let Ok(response) = serve(&[]).await;
    assert_eq!(left(seen), Some(6));
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    until(|| left(seen) == Some(7)).await;
    // Dropped without being polled.
    drop(serve(&[]).await);
    until(|| left(seen) == Some(7)).await;
    // Failed in the middle: the bytes that were sent count.
    let Ok(response) = serve(&[("broken", "")]).await;
    assert!(response.into_body().collect().await.is_err());
    until(|| left(seen) == Some(0)).await;

    let exchanges = exchanges.lock().unwrap();
    let endings: Vec<Ending> = exchanges.iter().map(Exchange::ending).collect();
    assert_eq!(endings, [Ending::Complete, Ending::Aborted, Ending::Aborted, Ending::Failed]);
    assert_eq!(exchanges[0].grpc_status(), Some(5));
    assert!(exchanges[0].is_failure() && !exchanges[1].is_failure());
    assert!(exchanges.iter().all(|exchange| exchange.status() == Some(StatusCode::OK)));
}

#[tokio::test]
async fn bytes_that_were_sent() {
    let (store, _) = memory();
    by_bytes(&store.clone(), store).await;
    let (store, _) = memory();
    by_bytes(&store.clone(), Remote(store)).await;
}

/// More than the limit: later requests wait until the debt is paid.
#[tokio::test]
async fn units_beyond_the_limit_become_debt() {
    let (store, clock) = memory();
    let rule = Rule::new(policy("api", 5)).settle(|_| 8);
    let layer = layered(store.clone(), rule).await;
    assert_eq!(status_of(&layer, 200).await, 200);
    // Eight of five are spent: one is free when four have returned.
    for (seconds, status) in [(0, 429), (39, 429), (1, 200)] {
        clock.advance(Duration::from_secs(seconds));
        assert_eq!(status_of(&layer, 200).await, status, "{seconds}");
    }
}

#[tokio::test]
async fn by_duration() {
    let (store, _) = memory();
    let rule = Rule::new(policy("api", 1_000_000))
        .settle(|exchange| u64::try_from(exchange.duration().as_millis()).unwrap_or(u64::MAX));
    let layer = layered(store.clone(), rule).await;
    let slow = service_fn(|_: Request<()>| async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let Ok(_) = layer.layer(slow).oneshot(request()).await;
    assert!(left(&store).is_some_and(|left| left <= 1_000_000 - 30), "{:?}", left(&store));
}

/// A policy in shadow charges nothing for what it would have refused, so it settles nothing for it.
#[tokio::test]
async fn a_shadow_settles_only_what_it_charged() {
    let in_shadow = Rule::new(policy("api", 2).with_shadow(true));
    let not_enrolled = Rule::new(policy("api", 2)).rollout(Rollout::NOBODY);
    for rule in [in_shadow, not_enrolled] {
        let (store, _) = memory();
        let layer = layered(store.clone(), rule.cost(2).settle(|_| 1)).await;
        for _ in 0..3 {
            assert_eq!((status_of(&layer, 200).await, left(&store)), (200, Some(1)));
        }
    }
}

/// Units are given back to the window that they were charged to, and not to a later one.
#[tokio::test]
async fn nothing_is_given_back_to_another_window() {
    let (store, clock) = memory();
    let window = FixedWindow::aligned(10, Duration::from_secs(60)).unwrap();
    let policy = Policy::new("api", [window]).unwrap();
    let layer = layered(store.clone(), Rule::new(policy).cost(8).settle(|_| 1)).await;
    clock.advance(Duration::from_secs(59));
    // Settled at once, because its body is empty; the next one is held back by hand.
    assert_eq!((status_of(&layer, 200).await, left(&store)), (200, Some(9)));
    let held =
        service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(frames(&[]))) });
    let Ok(response) = layer.layer(held).oneshot(request()).await;
    assert_eq!(left(&store), Some(1));
    clock.advance(Duration::from_secs(2));
    assert!(store.check_n("api", b"", 6).await.unwrap().is_allowed());
    assert_eq!(left(&store), Some(4));
    drop(response);
    assert_eq!(left(&store), Some(4));
}

/// Two rules of one policy for one key are two costs of one budget.
#[tokio::test]
async fn a_budget_that_is_charged_twice_is_settled_twice() {
    let (store, _) = memory();
    let rule = || Rule::new(policy("api", 10)).cost(2).settle(|_| 1);
    let builder = RateLimitLayer::builder(store.clone()).rule(rule()).rule(rule());
    let layer = builder.key(Key::everyone()).build().await.unwrap();
    assert_eq!((status_of(&layer, 200).await, left(&store)), (200, Some(8)));
}

#[tokio::test]
async fn a_function_that_breaks_leaves_the_estimate() {
    let (store, _) = memory();
    let broken = Rule::new(policy("api", 10)).cost(2).settle(|_| panic!("a mistake"));
    let layer = layered(store.clone(), broken).await;
    assert_eq!((status_of(&layer, 200).await, left(&store)), (200, Some(8)));
    assert_eq!(layer.unsettled(), 0);
}

/// A client that disconnects while a remote store decides is settled, too.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_given_up_while_it_is_decided_about() {
    let (store, _) = memory();
    let rule = Rule::new(policy("api", 10)).cost(5).settle(|exchange| {
        assert_eq!((exchange.status(), exchange.ending()), (None, Ending::Aborted));
        2
    });
    let layer = layered(Remote(store.clone()), rule).await;
    let asked = tokio::time::timeout(Duration::from_millis(1), status_of(&layer, 200));
    assert!(asked.await.is_err());
    until(|| left(&store) == Some(8)).await;
}

/// A response is complete when all its bytes were sent, whether its end was polled or not.
#[tokio::test]
async fn a_length_that_was_reached_is_an_end() {
    for (method, frames, expected) in
        [("GET", 1, Ending::Complete), ("GET", 0, Ending::Aborted), ("HEAD", 0, Ending::Complete)]
    {
        let (store, _) = memory();
        let endings: Arc<Mutex<Vec<Ending>>> = Arc::default();
        let seen = Arc::clone(&endings);
        let rule = Rule::new(policy("api", 10)).settle(move |exchange| {
            seen.lock().unwrap().push(exchange.ending());
            1
        });
        let layer = layered(store, rule).await;
        let served = service_fn(|_: Request<()>| async {
            Ok::<_, Infallible>(Response::new(Full::from("12345")))
        });
        let request = Request::builder().method(method).body(()).unwrap();
        let Ok(response) = layer.layer(served).oneshot(request).await;
        let mut body = response.into_body();
        for _ in 0..frames {
            body.frame().await.unwrap().unwrap();
        }
        drop(body);
        assert_eq!(*endings.lock().unwrap(), [expected], "{method} {frames}");
    }
}

/// A concurrency limit holds a place for as long as a response lasts.
#[tokio::test]
async fn places_that_are_held_at_once() {
    let (store, _) = memory();
    let two = Concurrency::new(2, Duration::from_secs(60)).unwrap();
    let layer = layered(store.clone(), Rule::new(Policy::new("api", [two]).unwrap())).await;
    let serve = || {
        let served =
            service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(frames(&[]))) });
        layer.layer(served).oneshot(request())
    };
    let Ok(first) = serve().await;
    let Ok(second) = serve().await;
    let Ok(third) = serve().await;
    let statuses = [&first, &second, &third].map(|response| response.status().as_u16());
    assert_eq!(statuses, [200, 200, 429]);
    drop(first);
    let Ok(fourth) = serve().await;
    assert_eq!(fourth.status(), StatusCode::OK);
    second.into_body().collect().await.unwrap();
    let Ok(fifth) = serve().await;
    assert_eq!(fifth.status(), StatusCode::OK);
}

/// A failing service gets no requests for a while, then a probe.
#[tokio::test]
async fn a_service_that_keeps_breaking() {
    let (store, clock) = memory();
    let half = ErrorRate::new(5_000, Duration::from_secs(60), 2, Duration::from_secs(10)).unwrap();
    let layer = layered(store, Rule::new(Policy::new("api", [half]).unwrap())).await;
    let serve = |status| status_of(&layer, status);
    // What clients get wrong is not the service's fault.
    assert_eq!([serve(404).await, serve(500).await, serve(200).await], [404, 500, 429]);
    clock.advance(Duration::from_secs(10));
    assert_eq!([serve(200).await, serve(200).await], [200, 200]);
}

/// Refused requests and disconnected clients say nothing about the service.
#[tokio::test]
async fn only_what_was_served_is_reported() {
    let (store, clock) = memory();
    let half = ErrorRate::new(5_000, Duration::from_secs(60), 2, Duration::from_secs(10)).unwrap();
    let layer = layered(store, Rule::new(Policy::new("api", [half]).unwrap())).await;
    let broken = || {
        let served =
            service_fn(|_: Request<()>| async { Err::<Response<Full<Bytes>>, _>("broken") });
        layer.layer(served).oneshot(request())
    };
    let status = || status_of(&layer, 200);
    assert!(broken().await.is_err() && broken().await.is_err());
    clock.advance(Duration::from_secs(10));
    // The probe hangs: neither does a refusal meanwhile close the breaker, nor that its client goes away.
    let hung = service_fn(|_: Request<()>| {
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let mut probe = Box::pin(layer.layer(hung).oneshot(request()));
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut probe).await.is_err());
    assert_eq!([status().await, status().await], [429, 429]);
    drop(probe);
    assert_eq!(status().await, 429);
    clock.advance(Duration::from_secs(10));
    assert_eq!([status().await, status().await], [200, 200]);
}

/// If the reply to a reservation is lost, the request is charged without one, and the reservation is cancelled.
#[tokio::test]
async fn a_reply_that_is_lost() {
    #[derive(Clone)]
    struct Lossy(MemoryStore<ManualClock>);
    impl Store for Lossy {
        async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
            self.0.set_policy(policy).await
        }
        async fn apply(
            &self,
            verb: Verb,
            charges: &[Charge<'_>],
        ) -> Result<Vec<Answer>, StoreError> {
            self.0.apply(verb, charges).await
        }
        async fn reserve(&self, hold: &Hold<'_>) -> Result<Reserved, StoreError> {
            self.0.reserve(hold).await?;
            Err(StoreError::failed(Failure::Timeout, "the reply is lost"))
        }
        async fn settle(&self, id: &str, with: Settlement<'_>) -> Result<Settled, StoreError> {
            self.0.settle(id, with).await
        }
    }
    let (store, _) = memory();
    let rule = Rule::new(policy("api", 10)).cost(4).settle(|_| 1);
    let layer = layered(Lossy(store.clone()), rule).await;
    assert_eq!(status_of(&layer, 200).await, 200);
    // The reservation is cancelled; the charge without one stays at its estimate.
    until(|| left(&store) == Some(6)).await;

    let (store, _) = memory();
    let two = Concurrency::new(2, Duration::from_secs(60)).unwrap();
    let layer = layered(Lossy(store.clone()), Rule::new(Policy::new("api", [two]).unwrap())).await;
    assert_eq!(status_of(&layer, 200).await, 503);
    until(|| store.reservations_of("api") == 0).await;
}
