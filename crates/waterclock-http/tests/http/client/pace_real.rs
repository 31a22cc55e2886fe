//! A hundred callers at once, a real client, a real server, and the server's own count.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use axum::routing::get as on_get;
use tokio::task::JoinSet;
use tower::{Layer, Service, ServiceExt, service_fn};
use waterclock::{Clock, KeyedLimiter, Limit, MonotonicClock, Timestamp};
use waterclock_http::PaceLayer;

use super::stage::{client, get, serve};

const CALLERS: usize = 100;
const PER_SECOND: u64 = 50;

type Instants = Arc<Mutex<Vec<(String, Timestamp)>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_callers_never_exceed_the_limit_in_any_window() {
    let clock = MonotonicClock::default();
    let (sent, arrived) = (Instants::default(), Instants::default());
    let note = move |instants: &Instants, path: String| {
        instants.lock().expect("no poison").push((path, clock.now()));
    };
    let handler = move |State(arrived): State<Instants>, uri: Uri| async move {
        note(&arrived, uri.path().to_owned());
    };
    let router = Router::new().fallback(on_get(handler)).with_state(Arc::clone(&arrived));
    let address = serve(router).await;

    // Between the pace and the client: when each request is sent.
    let (client, noted) = (client(), Arc::clone(&sent));
    let noting = service_fn(move |request: http::Request<_>| {
        note(&noted, request.uri().path().to_owned());
        client.clone().call(request)
    });
    let pace = PaceLayer::new(KeyedLimiter::new(Limit::per_second(PER_SECOND).with_capacity(1)));
    let pace = pace.within(Duration::from_secs(60)).layer(noting);
    let mut calls = JoinSet::new();
    for caller in 0..CALLERS {
        calls.spawn(pace.clone().oneshot(get(&format!("http://{address}/{caller}"))));
    }
    for response in calls.join_all().await {
        assert!(response.expect("a response").status().is_success());
    }
    within_the_limit(&take(&sent), &take(&arrived));
}

fn take(instants: &Instants) -> Vec<(String, Timestamp)> {
    let mut taken = std::mem::take(&mut *instants.lock().expect("no poison"));
    taken.sort_by_key(|(_, at)| *at);
    taken
}

/// What took a while on the way can arrive together with what was sent later: so a window of the server's is
/// as long as it is, and as the slowest was on its way.
fn within_the_limit(sent: &[(String, Timestamp)], arrived: &[(String, Timestamp)]) {
    assert_eq!((sent.len(), arrived.len()), (CALLERS, CALLERS));
    let on_the_way = |(path, at): &(String, Timestamp)| {
        let (_, sent) = sent.iter().find(|(own, _)| own == path).expect("it was sent");
        at.since(*sent)
    };
    let slowest = arrived.iter().map(on_the_way).max().expect("some");
    for (first, (_, from)) in arrived.iter().enumerate() {
        for (count, (_, to)) in arrived[first..].iter().enumerate() {
            let window = to.since(*from) + slowest;
            let most = 1 + window.as_nanos() * u128::from(PER_SECOND) / 1_000_000_000;
            assert!((count as u128) < most, "{} in {window:?}, of it {slowest:?}", count + 1);
        }
    }
}
