//! Layers for clients: outgoing requests that keep to limits.

mod pace;
mod retry_after;
mod wait;

use http::header::HOST;
use http::uri::Authority;
use http::{Request, Uri};

pub use pace::{Pace, PaceError, PaceFuture, PaceLayer, Pacer};
pub use retry_after::{
    RetryAfter, RetryAfterError, RetryAfterFuture, RetryAfterLayer, advised_wait,
};

/// The contract of futures forbids this.
const POLLED_AGAIN: &str = "a response was polled again after it was ready";

/// The server of a request as a key: host and port in lower case, without the scheme's default port. Empty
/// if the request does not name it.
fn authority<B>(request: &Request<B>) -> String {
    let uri = request.uri();
    if let Some(authority) = uri.authority() {
        return normal(uri, authority);
    }
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()?.parse().ok());
    host.map_or_else(String::new, |host| normal(uri, &host))
}

fn normal(uri: &Uri, authority: &Authority) -> String {
    let host = authority.host().to_ascii_lowercase();
    match (authority.port_u16(), uri.scheme_str()) {
        (None, _) | (Some(80), Some("http")) | (Some(443), Some("https")) => host,
        (Some(port), _) => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_has_one_key() {
        let of = |uri: &str| authority(&Request::get(uri).body(()).expect("a request"));
        assert_eq!(of("http://API.example/v1"), "api.example");
        assert_eq!(of("http://api.example:80/"), "api.example");
        assert_eq!(of("https://api.example:443/"), "api.example");
        assert_eq!(of("https://api.example:80/"), "api.example:80");
        assert_eq!(of("http://user:secret@api.example:8080/"), "api.example:8080");
        assert_eq!(of("http://[::1]:8080/"), "[::1]:8080");
    }

    #[test]
    fn a_path_alone_leaves_it_to_the_host_field() {
        let of = |host: &[u8]| {
            let request = Request::get("/v1").header(HOST, host).body(());
            authority(&request.expect("a request"))
        };
        assert_eq!(of(b"Api.Example:8080"), "api.example:8080");
        assert_eq!(of(b"\xff"), "");
        assert_eq!(of(b"not a host"), "");
        assert_eq!(authority(&Request::get("/v1").body(()).expect("a request")), "");
    }
}
