//! For client tests: tokio's paused time as a clock, a client that records requests, servers on loopback.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tower::{Service, service_fn};
use waterclock::{Clock, Timestamp};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// 2025-01-01T00:00:00Z.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_735_689_600_000_000);

/// Tokio's time, which tests pause: it jumps to the next timer when nothing else is to be done.
#[derive(Clone, Copy)]
pub(crate) struct TokioClock(Instant);

impl TokioClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        START.after(self.0.elapsed())
    }
}

/// What happened, and when.
#[derive(Clone)]
pub(crate) struct Diary {
    start: Instant,
    entries: Arc<Mutex<Vec<(String, Duration)>>>,
}

impl Diary {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), entries: Arc::default() }
    }

    pub(crate) fn write(&self, what: impl ToString) {
        self.entries.lock().expect("no poison").push((what.to_string(), self.start.elapsed()));
    }

    /// In whole milliseconds, which is how exact tokio's timer is.
    pub(crate) fn read(&self) -> Vec<(String, u128)> {
        let entries = self.entries.lock().expect("no poison");
        entries.iter().map(|(what, at)| (what.clone(), at.as_millis())).collect()
    }
}

/// A client that only records what it is asked to send.
pub(crate) fn recorder(
    diary: &Diary,
) -> impl Service<String, Response = (), Error = Infallible, Future: Send> + Clone + Send + 'static
{
    let diary = diary.clone();
    service_fn(move |request: String| {
        diary.write(request);
        async { Ok(()) }
    })
}

pub(crate) fn get(uri: &str) -> Request<Full<Bytes>> {
    Request::get(uri).body(Full::default()).expect("a request")
}

pub(crate) fn client() -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

/// Serves until the test's runtime ends.
pub(crate) async fn serve(router: axum::Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}
