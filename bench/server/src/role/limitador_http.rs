//! limitador's library behind axum, asked as its own server is: `POST /check_and_report`.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use limitador::RateLimiter;
use serde::Deserialize;
use tokio::net::TcpListener;

use super::floor;
use super::quota::limiter;
use crate::Error;

#[derive(Deserialize)]
struct Question {
    namespace: String,
    values: HashMap<String, String>,
    delta: u64,
}

async fn check(State(limiter): State<Arc<RateLimiter>>, Json(asked): Json<Question>) -> StatusCode {
    let namespace = asked.namespace.into();
    let context = asked.values.into();
    match limiter.check_rate_limited_and_update(&namespace, &context, asked.delta) {
        Ok(checked) if checked.limited => StatusCode::TOO_MANY_REQUESTS,
        Ok(_) => StatusCode::OK,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

pub async fn serve(listener: TcpListener) -> Result<(), Error> {
    let limiter = Arc::new(limiter("user")?);
    let router = Router::new().route("/check_and_report", post(check)).with_state(limiter);
    floor::serve(listener, router).await
}
