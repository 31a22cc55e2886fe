//! Protection against password guessing: five wrong passwords per hour and account, from any address. A correct password
//! resets the count.
//!
//! An attempt is charged before the password is checked; otherwise a hundred concurrent guesses would all be checked.
//!
//! `cargo run -p waterclock-http --features axum --example login`, then run the command it prints.

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

/// Stands for your user database. In a real service the password belongs in the body, not in the path.
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
