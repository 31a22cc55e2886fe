//! A reqwest client that sends at most ten requests per second to each server.
//!
//!     cargo run -p waterclock-http --features client --example outgoing_reqwest

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tower::{Layer, ServiceExt};
use waterclock::{Clock, KeyedLimiter, Limit, MonotonicClock};
use waterclock_http::PaceLayer;

/// Stands for a third-party server.
async fn server() -> std::io::Result<String> {
    let router = Router::new().route("/", get(|| async { "hello" }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = server().await?;
    let reqwest = reqwest::Client::new();
    let host = |request: &reqwest::Request| request.url().authority().to_owned();
    let client =
        PaceLayer::with_key(KeyedLimiter::new(Limit::per_second(10).with_capacity(1)), host)
            .within(Duration::from_secs(5))
            .layer(reqwest.clone());

    let clock = MonotonicClock::default();
    let start = clock.now();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..6 {
        calls.spawn(client.clone().oneshot(reqwest.get(&url).build()?));
    }
    while let Some(response) = calls.join_next().await {
        println!("{:>5} ms  {}", clock.now().since(start).as_millis(), response??.status());
    }
    Ok(())
}
