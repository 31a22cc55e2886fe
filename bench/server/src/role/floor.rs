//! axum that answers 204 to every request: the cost of HTTP without a decision.

use axum::Router;
use axum::routing::post;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

use crate::Error;

/// One path of it.
pub fn path(path: &str) -> Router {
    Router::new().route(path, post(async || http::StatusCode::NO_CONTENT))
}

/// The paths for the wide and for the narrow quota.
pub fn app() -> Router {
    path("/").merge(path("/narrow"))
}

pub async fn serve(listener: TcpListener, app: Router) -> Result<(), Error> {
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    Ok(axum::serve(listener, app).await?)
}
