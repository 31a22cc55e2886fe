//! A hyper client with its own rate limit that also obeys `Retry-After` and similar headers.
//!
//!     cargo run -p waterclock-http --features client --example outgoing_hyper

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tower::{ServiceBuilder, ServiceExt};
use waterclock::{Clock, FixedWindow, KeyedLimiter, Limit, MemoryStore, MonotonicClock, Policy};
use waterclock_http::{HeaderStyle, Key, PaceLayer, RateLimitLayer, RetryAfterLayer, Rule};

type Failure = Box<dyn std::error::Error>;

/// A third-party server that allows five requests per second, and says so in its headers.
async fn server() -> Result<String, Failure> {
    let window = FixedWindow::new(5, Duration::from_secs(1))?.with_name("second");
    let rule = Rule::new(Policy::new("api", [window])?).headers(HeaderStyle::Ietf);
    let builder = RateLimitLayer::builder(MemoryStore::default()).rule(rule);
    let router = Router::new().route("/", get(|| async { "hello" }));
    let router = router.layer(builder.key(Key::everyone()).build().await?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let uri = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(uri)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let uri = server().await?;
    let hyper = Client::builder(TokioExecutor::new()).build_http();
    let client = ServiceBuilder::new()
        // The server has precedence: no requests while it asks for a pause.
        .layer(RetryAfterLayer::new().retries(2).within(Duration::from_secs(10)))
        // At most fifty per second to any server, evenly spaced.
        .layer(PaceLayer::new(KeyedLimiter::new(Limit::per_second(50).with_capacity(1))))
        .service(hyper);

    let clock = MonotonicClock::default();
    let start = clock.now();
    for _ in 0..10 {
        let request = Request::get(&uri).body(Empty::<Bytes>::new())?;
        let response = client.clone().oneshot(request).await?;
        println!("{:>5} ms  {}", clock.now().since(start).as_millis(), response.status());
    }
    Ok(())
}
