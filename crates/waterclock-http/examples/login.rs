//! Guessing passwords: five wrong ones an hour for each name, from wherever they come. Only failures count, and
//! whoever knows the password starts afresh.
//!
//! An attempt is charged before the password is looked at, because a hundred guesses at once would all be
//! looked at otherwise; a right one forgets them all.
//!
//! `cargo run -p waterclock-http --features axum --example login`, and try what it says.

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{StatusCode, header};
use waterclock::{KeyedLimiter, Limit};

type Attempts = Arc<KeyedLimiter<str>>;

async fn login(
    State(attempts): State<Attempts>,
    Path((name, password)): Path<(String, String)>,
) -> Response {
    let decision = attempts.check(&*name);
    if !decision.is_allowed() {
        let seconds = decision.retry_after().unwrap_or_default().as_secs() + 1;
        let wait = [(header::RETRY_AFTER, seconds.to_string())];
        return (StatusCode::TOO_MANY_REQUESTS, wait, "too many wrong passwords\n").into_response();
    }
    if is_right(&name, &password) {
        attempts.reset(&*name);
        return "welcome\n".into_response();
    }
    let left = decision.remaining().unwrap_or_default();
    (StatusCode::UNAUTHORIZED, format!("wrong, {left} more\n")).into_response()
}

/// Stands for whatever knows your users. Passwords belong in a body, and not in a path.
fn is_right(name: &str, password: &str) -> bool {
    (name, password) == ("alice", "sesame")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let attempts: Attempts = Arc::new(KeyedLimiter::new(Limit::per_hour(5)));
    let app = Router::new().route("/login/{name}/{password}", post(login)).with_state(attempts);
    let at = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".into());
    let listener = tokio::net::TcpListener::bind(at).await?;
    println!("try: curl -i -X POST http://{}/login/alice/guess", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
