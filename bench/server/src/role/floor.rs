//! axum that answers 204 to every request: the cost of HTTP without a decision.

use axum::Router;
use axum::routing::post;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

use crate::Error;

pub async fn serve(listener: TcpListener) -> Result<(), Error> {
    let nothing = || async { http::StatusCode::NO_CONTENT };
    let router = Router::new().route("/", post(nothing));
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    Ok(axum::serve(listener, router).await?)
}
