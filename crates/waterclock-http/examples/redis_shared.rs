//! Several servers, one limit: `cargo run -p waterclock-http --features axum --example redis_shared -- redis://localhost`.
//!
//! Start it twice, the second time with another address at the end (`127.0.0.1:3001`): both servers share the count.

use std::error::Error;

use axum::Router;
use axum::routing::get;
use waterclock::{Limit, Policy};
use waterclock_http::{ClientIp, HeaderStyle, RateLimitLayer, Rule};
use waterclock_redis::RedisStore;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let redis = arguments.next().unwrap_or_else(|| "redis://localhost".into());
    let at = arguments.next().unwrap_or_else(|| "127.0.0.1:3000".into());

    let policy = Policy::new("shared-example", [Limit::per_minute(5)])?;
    let limits = RateLimitLayer::builder(RedisStore::connect(&redis).await?)
        .rule(Rule::new(policy).headers(HeaderStyle::Ietf))
        .key(ClientIp::behind(["10.0.0.0/8"])?)
        .build_per_connection()
        .await?;
    let app = Router::new().route("/", get(async || "served\n"));
    let listener = tokio::net::TcpListener::bind(at).await?;
    println!("try: curl -i http://{}/", listener.local_addr()?);
    Ok(axum::serve(listener, limits.make_service(app)).await?)
}
