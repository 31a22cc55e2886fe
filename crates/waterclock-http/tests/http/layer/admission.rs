//! Which requests are admitted, and what their responses contain.

use std::collections::HashSet;
use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use tower::{Layer, Service, ServiceExt, service_fn};
use waterclock::{Limit, MemoryStore, Policy, Store};
use waterclock_http::{Checked, HeaderStyle, Key, RateLimitLayer, Rule};

use super::stage::{Remote, app, memory, of, policy, send};

async fn by_user<S: Store + 'static>(store: S, rule: impl Into<Rule>) -> RateLimitLayer<S> {
    let builder = RateLimitLayer::builder(store).rule(rule).key(Key::header("x-user"));
    builder.build().await.expect("a valid layer")
}

/// The same requests with a store that answers at once and with one that does not.
async fn serves_and_refuses<S: Store + 'static>(store: S, clock: waterclock::ManualClock) {
    let rule = Rule::new(policy("api", 2)).headers(HeaderStyle::Ietf);
    let app = app(&by_user(store, rule).await);
    let first = send(&app, of("alice")).await;
    assert_eq!((first.status, &*first.body), (StatusCode::OK, "Some(1)"));
    assert_eq!(first.header("ratelimit-policy"), Some(r#""api.burst";q=2;w=20"#));
    assert_eq!(first.header("ratelimit"), Some(r#""api.burst";r=1;t=10"#));
    assert_eq!(first.header("retry-after"), None);
    assert_eq!(send(&app, of("alice")).await.body, "Some(0)");

    let refused = send(&app, of("alice")).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.header("retry-after"), Some("10"));
    assert_eq!(refused.header("ratelimit"), Some(r#""api.burst";r=0;t=10"#));
    assert_eq!(send(&app, of("bob")).await.status, StatusCode::OK);

    clock.advance(Duration::from_secs(10));
    assert_eq!(send(&app, of("alice")).await.body, "Some(0)");
}

#[tokio::test]
async fn at_once() {
    let (store, clock) = memory();
    serves_and_refuses(store, clock).await;
}

#[tokio::test]
async fn after_a_while() {
    let (store, clock) = memory();
    serves_and_refuses(Remote(store), clock).await;
}

#[tokio::test]
async fn a_shadow_policy_never_refuses_and_is_not_mentioned() {
    let (store, _) = memory();
    let rule = Rule::new(policy("api", 1).with_shadow(true)).headers(HeaderStyle::Ietf);
    let app = app(&by_user(store, rule).await);
    for _ in 0..3 {
        let reply = send(&app, of("alice")).await;
        assert_eq!(reply.status, StatusCode::OK);
        assert!(reply.headers.is_empty(), "{:?}", reply.headers);
    }
}

#[tokio::test]
async fn clones_count_together() {
    let (store, _) = memory();
    let layer = by_user(store, policy("api", 2)).await;
    let (one, other) = (app(&layer), app(&layer.clone()));
    assert_eq!(send(&one, of("alice")).await.body, "Some(1)");
    assert_eq!(send(&other, of("alice")).await.body, "Some(0)");
    assert_eq!(send(&one, of("alice")).await.status, StatusCode::TOO_MANY_REQUESTS);
}

/// Ready once for each time it was asked, as a service with a limited number of places is.
#[derive(Default)]
struct Strict {
    is_ready: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Service<Request<()>> for Strict {
    type Response = Response<Empty<bytes::Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "called without being ready");
        std::future::ready(Ok(Response::new(Empty::new())))
    }
}

#[tokio::test]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    let (store, _) = memory();
    let request = || Request::builder().header("x-user", "alice").body(()).expect("valid");
    let mut at_once = by_user(store.clone(), policy("api", 9)).await.layer(Strict::default());
    let mut later = by_user(Remote(store), policy("api", 9)).await.layer(Strict::default());
    for _ in 0..2 {
        let Ok(_) = at_once.ready().await.unwrap().call(request()).await;
        let Ok(_) = later.ready().await.unwrap().call(request()).await;
    }
}

#[tokio::test]
async fn the_error_type_of_the_service_stays() {
    #[derive(Debug, PartialEq)]
    struct Broken;
    let (store, _) = memory();
    let layer = by_user(store, policy("api", 9)).await;
    let broken =
        service_fn(|_: Request<()>| async { Err::<Response<Empty<bytes::Bytes>>, _>(Broken) });
    let request = Request::builder().header("x-user", "alice").body(()).expect("valid");
    assert_eq!(layer.layer(broken).oneshot(request).await.err(), Some(Broken));
}

#[tokio::test]
async fn a_layer_behind_a_layer_adds_to_what_the_handler_sees() {
    let (store, _) = memory();
    let all = Rule::new(policy("all", 5)).headers(HeaderStyle::Ietf);
    let outer = RateLimitLayer::builder(store.clone()).rule(all).key(Key::everyone());
    let outer = outer.build().await.unwrap();
    let inner = by_user(store, Rule::new(policy("api", 2)).headers(HeaderStyle::Ietf)).await;
    let handler = service_fn(|request: Request<()>| async move {
        let checked = request.extensions().get::<Checked>().expect("both have decided");
        let names: HashSet<String> = checked.iter().map(|charged| charged.name().into()).collect();
        assert_eq!(names, HashSet::from(["all".into(), "api".into()]));
        Ok::<_, Infallible>(Response::new(Empty::<bytes::Bytes>::new()))
    });
    let request = Request::builder().header("x-user", "alice").body(()).expect("valid");
    let Ok(response) = outer.layer(inner.layer(handler)).oneshot(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    // Neither hides the other from clients.
    let fields: Vec<_> = response.headers().get_all("ratelimit").iter().collect();
    assert_eq!(fields, [r#""api.burst";r=1;t=10"#, r#""all.burst";r=4;t=40"#]);
}

/// A partial grant admits the request.
#[tokio::test]
async fn a_partial_grant_is_no_refusal() {
    let (store, _) = memory();
    let nary = policy("api", 3).with_mode(waterclock::Mode::Partial).unwrap();
    let app = app(&by_user(store, Rule::new(nary).cost(5)).await);
    assert_eq!(send(&app, of("alice")).await.status, StatusCode::OK);
    assert_eq!(send(&app, of("alice")).await.status, StatusCode::TOO_MANY_REQUESTS);
}

/// The monotonic clock of real life, so that nothing in the layer needs ours.
#[tokio::test]
async fn the_default_store_will_do() {
    let per_day = Policy::new("api", [Limit::per_day(1)]).unwrap();
    let app = app(&by_user(MemoryStore::default(), per_day).await);
    assert_eq!(send(&app, of("alice")).await.status, StatusCode::OK);
    assert_eq!(send(&app, of("alice")).await.status, StatusCode::TOO_MANY_REQUESTS);
}
