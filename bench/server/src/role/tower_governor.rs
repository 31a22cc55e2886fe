//! The floor behind tower_governor, as its documentation shows it.

use std::time::Duration;

use axum::Router;
use http::Request;
use tokio::net::TcpListener;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::KeyExtractor;
use tower_governor::{GovernorError, GovernorLayer};

use super::floor;
use crate::Error;
use crate::keys::{NARROW, Quota, WIDE};

pub async fn serve(listener: TcpListener) -> Result<(), Error> {
    floor::serve(listener, app()?).await
}

pub fn app() -> Result<Router, Error> {
    Ok(limited("/", WIDE)?.merge(limited("/narrow", NARROW)?))
}

fn limited(path: &str, quota: Quota) -> Result<Router, Error> {
    let capacity = quota.limit.try_into()?;
    let config = GovernorConfigBuilder::default()
        .key_extractor(User)
        .period(Duration::from_secs(quota.seconds) / capacity)
        .burst_size(capacity)
        .finish();
    Ok(floor::path(path).layer(GovernorLayer::new(config.ok_or("a quota of nothing")?)))
}

/// The same key as the others have: it has no extractor for a header of one's choice.
#[derive(Clone)]
struct User;

impl KeyExtractor for User {
    type Key = String;

    fn extract<T>(&self, request: &Request<T>) -> Result<String, GovernorError> {
        let user = request.headers().get("x-user").and_then(|user| user.to_str().ok());
        user.map(str::to_owned).ok_or(GovernorError::UnableToExtractKey)
    }
}
