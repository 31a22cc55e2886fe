//! Cross-site requests of browsers, and requests that only look like them.

use std::net::SocketAddr;

use waterclock_config::{Config, Listen};
use waterclock_server::observe::Face;
use waterclock_server::{Listeners, Running};

use crate::at_work::{AtWork, auth, hurried};
use crate::client::Client;

const POLICIES: &str = "[policies.p]\nlimits = [\"100/h\"]\n";
const CHECK: (&str, &str, &str) = ("POST", "/v1/check", r#"{"policy":"p","key":"k"}"#);
const LIVE: (&str, &str, &str) = ("GET", "/v1/live", "");
const AUTHORIZE: (&str, &str, &str) = ("GET", "/v1/authorize?policy=p&key=k", "");

async fn status(
    client: &mut Client,
    (method, path, body): (&str, &str, &str),
    lines: &[&str],
) -> u16 {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\n{lines}content-length: {length}\r\n\r\n{body}");
    client.try_send(request.as_bytes()).await.expect("an answer").status
}

#[tokio::test]
async fn pages_from_elsewhere_may_not_ask() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let elsewhere: [&[&str]; 7] = [
        // A page that posts a form, or has an image that leads here.
        &["host: 127.0.0.1:8080", "origin: http://evil.example", "content-type: text/plain"],
        &["host: 127.0.0.1:8080", "sec-fetch-site: cross-site"],
        &["host: localhost:8080", "sec-fetch-site: same-site", "origin: http://localhost:3000"],
        &["host: localhost:8080", "origin: http://localhost:3000"],
        &["host: 127.0.0.1:8080", "origin: null"],
        // A name that leads here since a moment ago.
        &["host: evil.example", "origin: http://evil.example", "content-type: text/plain"],
        &["host: evil.example:8080", "origin: http://evil.example:8080", "accept-language: en"],
    ];
    for lines in elsewhere {
        for what in [CHECK, LIVE, ("GET", "/metrics", ""), ("GET", "/v1/policies/p/keys/k", "")] {
            assert_eq!(status(&mut client, what, lines).await, 403, "{what:?} {lines:?}");
        }
    }
    let rebound = ["host: evil.example:8080", "accept-language: en", "accept: */*"];
    for path in ["/v1/live", "/v1/policies", "/v1/config", "/metrics", "/v1/policies/p/keys/k"] {
        assert_eq!(status(&mut client, ("GET", path, ""), &rebound).await, 403, "{path}");
    }
    let live = client.get("/v1/live").await.json();
    assert_eq!(live["totals"]["allowed"], 0, "nothing was charged");
}

#[tokio::test]
async fn the_dashboard_proxies_and_programs_may() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let ours: [&[&str]; 6] = [
        &["host: 127.0.0.1:8080", "origin: http://127.0.0.1:8080", "accept-language: en"],
        &["host: localhost:8080", "sec-fetch-site: same-origin", "accept-language: en"],
        // An address typed by hand.
        &["host: [::1]:8080", "sec-fetch-site: none", "accept-language: en"],
        // Through a proxy that speaks TLS and passes the request on to another name.
        &["host: upstream", "sec-fetch-site: same-origin", "origin: https://waterclock.example"],
        // A program, and a scraper behind a sidecar.
        &["host: evil.example"],
        &["host: waterclock.default.svc:8080", "accept: text/plain", "user-agent: Prometheus/3"],
    ];
    for lines in ours {
        for what in [CHECK, LIVE, AUTHORIZE] {
            assert_eq!(status(&mut client, what, lines).await, 200, "{what:?} {lines:?}");
        }
    }
    // A proxy passes on what a browser says about a page of the proxy's own.
    let passed_on =
        ["host: example.com", "origin: https://a.example", "sec-fetch-site: cross-site"];
    assert_eq!(status(&mut client, AUTHORIZE, &passed_on).await, 200);
    // A link opens the page, which contains nothing that is not public.
    let link = ["host: 127.0.0.1:8080", "sec-fetch-site: cross-site"];
    assert_eq!(status(&mut client, ("GET", "/", ""), &link).await, 200);
}

/// Another site's page has no token: a request with a token may come from anywhere.
#[tokio::test]
async fn a_token_says_enough() {
    let auth = auth(&[("reader", "read")]) + POLICIES;
    let (_server, mut client) = AtWork::with_client(&auth).await;
    let lines = ["host: a.example", "origin: https://b.example", "authorization: Bearer reader"];
    assert_eq!(status(&mut client, LIVE, &lines).await, 200);
}

/// A listener for IPv6 and IPv4 sees loopback as `::ffff:127.0.0.1`, which is this machine as well.
#[tokio::test]
async fn a_rebound_name_is_refused_on_a_listener_for_both_families() {
    let text = format!("[server]\nallow_unauthenticated = true\n{POLICIES}");
    let config = Config::read("test.toml", &text).unwrap();
    let listen = Listen { http: Some("[::]:0".parse().unwrap()), grpc: None, resp: None };
    let listeners = Listeners::bind(&listen).await.unwrap();
    let port = listeners.address(Face::Http).unwrap().port();
    let _running = Running::start(config, listeners, hurried()).await.unwrap();
    let rebound = ["host: evil.example:8080", "accept-language: en", "accept: */*"];
    for address in ["127.0.0.1", "::1"] {
        let address = SocketAddr::new(address.parse().unwrap(), port);
        let mut client = Client::connect(address).await;
        let read = ("GET", "/v1/policies", "");
        assert_eq!(status(&mut client, read, &rebound).await, 403, "{address}");
        assert_eq!(client.get("/v1/policies").await.status, 200, "{address}");
    }
}
