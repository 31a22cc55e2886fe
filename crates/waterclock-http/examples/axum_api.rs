//! A site with a limit per route: logins by address, counting only failures, and an API by user, with higher limits for
//! paying users.
//!
//! `cargo run -p waterclock-http --features axum --example axum_api`, then run the commands it prints.

use std::borrow::Cow;
use std::error::Error;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use http::{Method, StatusCode};
use waterclock::{Limit, MemoryStore, Policy};
use waterclock_http::{Checked, ClientIp, HeaderStyle, Key, RateLimitLayer, Rule};

#[derive(Clone)]
struct User(&'static str, Option<&'static str>);

/// Stands for your user database.
async fn authenticate(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let user = match request.headers().get("authorization").map(|value| value.as_bytes()) {
        Some(b"Bearer alice") => User("alice", None),
        Some(b"Bearer bob") => User("bob", Some("pro")),
        _ => return Err(StatusCode::UNAUTHORIZED),
    };
    request.extensions_mut().insert(user);
    Ok(next.run(request).await)
}

async fn hello(Extension(user): Extension<User>, Extension(checked): Extension<Checked>) -> String {
    let left = checked.get("api").and_then(|answer| answer.decision.remaining());
    format!("hello {}, {} left\n", user.0, left.unwrap_or_default())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryStore::default();
    let login = Rule::new(Policy::new("login", [Limit::per_minute(3)])?)
        .method(Method::POST)
        .path("/login")
        .settle(|exchange| u64::from(exchange.is_failure()));
    let by_address = RateLimitLayer::builder(store.clone()).rule(login).key(ClientIp::default());

    let free = Policy::new("api", [Limit::per_minute(5)])?;
    let pro = free.scaled("api-pro", "0.5".parse()?)?; // Half the cost: ten a minute.
    let api = Rule::new(free)
        .tier("pro", pro)
        .tier_of(|parts| parts.extensions.get().and_then(|user: &User| user.1.map(Cow::Borrowed)))
        .headers(HeaderStyle::Ietf);
    let by_user =
        RateLimitLayer::builder(store).rule(api).key(Key::extension(|user: &User| user.0));

    let api = Router::new().route("/hello", get(hello)).layer(by_user.build().await?);
    let app = Router::new()
        .nest("/api", api.layer(from_fn(authenticate)))
        .route("/login", post(async || (StatusCode::UNAUTHORIZED, "wrong password\n")));
    let at = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".into());
    let listener = tokio::net::TcpListener::bind(at).await?;
    let at = listener.local_addr()?;
    println!("try: curl -i http://{at}/api/hello -H 'authorization: Bearer alice'");
    println!("and: curl -i -X POST http://{at}/login");
    let limits = by_address.build_per_connection().await?;
    Ok(axum::serve(listener, limits.make_service(app)).await?)
}
