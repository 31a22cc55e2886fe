//! A gateway to a language model: 100 tokens per minute and tenant. The cost of an answer is known only after it has been
//! streamed.
//!
//! Each call reserves an estimate, streams its answer and commits the real cost. All answers of a minute together take at
//! most 100 tokens, plus what single answers took beyond their estimates; that is the tenant's debt, which delays its next
//! calls.
//!
//! `cargo run -p waterclock-http --features axum --example llm_gateway`

use std::convert::Infallible;
use std::error::Error;
use std::sync::LazyLock;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream::unfold;
use http::{StatusCode, header};
use waterclock::{KeyedLimiter, Policy, RollingWindow};

const PER_MINUTE: u64 = 100;
const ESTIMATE: u64 = 30;

static TOKENS: LazyLock<KeyedLimiter<str>> = LazyLock::new(|| {
    let minute = RollingWindow::new(PER_MINUTE, Duration::from_secs(60));
    KeyedLimiter::new(Policy::from(minute.expect("these numbers are a limit")))
});

/// Streams an answer of `length` tokens, in place of a model.
async fn answer(Path((tenant, length)): Path<(String, u64)>) -> Response {
    let held = match TOKENS.reserve_n(&*tenant, ESTIMATE) {
        Ok(held) => held,
        Err(refused) => {
            let seconds = refused.retry_after().unwrap_or_default().as_secs() + 1;
            let wait = [(header::RETRY_AFTER, seconds.to_string())];
            return (StatusCode::TOO_MANY_REQUESTS, wait, "no tokens left\n").into_response();
        }
    };
    // If the client disconnects, the reservation is dropped with the stream and stays charged.
    let tokens = unfold((Some(held), 0), move |(held, sent)| async move {
        if sent == length {
            held?.commit(sent);
            return None;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        Some((Ok::<_, Infallible>("token "), (held, sent + 1)))
    });
    Body::from_stream(tokens).into_response()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let app = Router::new().route("/{tenant}/{length}", get(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let at = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    let mut calls = tokio::task::JoinSet::new();
    for length in [20, 25, 28, 33, 40] {
        calls.spawn(async move {
            let text = reqwest::get(format!("http://{at}/acme/{length}")).await?.text().await?;
            Ok::<_, reqwest::Error>(text.matches("token ").count() as u64)
        });
    }
    let used: Vec<u64> = calls.join_all().await.into_iter().collect::<Result<_, _>>()?;
    let (total, beyond) =
        used.iter().fold((0, 0), |(sum, over), n| (sum + n, over + n.saturating_sub(ESTIMATE)));
    println!("answers of {used:?} tokens: {total} used, of at most {PER_MINUTE} + {beyond}");
    println!("left: {}", TOKENS.peek("acme").remaining().unwrap_or_default());
    assert!(total <= PER_MINUTE + beyond, "never more");
    Ok(())
}
