//! The page for people who open the address in a browser, and the files it is made of.

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};

/// Everything comes from here, nothing is sent elsewhere, and no other page can frame it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; \
    object-src 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A script at `/dashboard/…`.
macro_rules! part {
    ($name:literal) => {
        (concat!("/dashboard/", $name), SCRIPT, include_str!(concat!("../../dashboard/", $name)))
    };
}

/// Where each file is, what kind it is of, and what is in it.
const FILES: [(&str, &str, &str); 15] = [
    ("/", HTML, include_str!("../../dashboard/index.html")),
    ("/dashboard.css", CSS, include_str!("../../dashboard/dashboard.css")),
    ("/dashboard.js", SCRIPT, include_str!("../../dashboard/dashboard.js")),
    ("/dashboard/icon.svg", SVG, include_str!("../../dashboard/icon.svg")),
    part!("admin.js"),
    part!("api.js"),
    part!("chart.js"),
    part!("dom.js"),
    part!("feed.js"),
    part!("format.js"),
    part!("history.js"),
    part!("levels.js"),
    part!("overview.js"),
    part!("playground.js"),
    part!("subject.js"),
];

/// All of its files.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        let tag = format!("\"{:.16x}\"", Sha256::digest(text));
        let serve = async move |headers: HeaderMap| file(&headers, kind, text, &tag);
        router.route(path, get(serve))
    })
}

/// Browsers ask each time whether a file has changed: a new server has a new page.
fn file(asked: &HeaderMap, kind: &'static str, text: &'static str, tag: &str) -> Response {
    let is_known = asked
        .get(header::IF_NONE_MATCH)
        .and_then(|tags| tags.to_str().ok())
        .is_some_and(|tags| tags.split(',').any(|known| known.trim() == tag));
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { text.into_response() };
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, kind);
    set(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::CACHE_CONTROL, "no-cache");
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
