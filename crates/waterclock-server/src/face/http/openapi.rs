//! The API, described for generators of clients and of tests.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};

/// The description. A test holds the server to it.
pub(super) async fn openapi() -> Response {
    let mut response = include_str!("openapi.json").into_response();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
