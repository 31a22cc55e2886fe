//! Tokens, roles, and listeners on public addresses.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;
use waterclock_config::{Config, Listen};
use waterclock_server::access::Role;
use waterclock_server::observe::Face;
use waterclock_server::{Listeners, Running};

use crate::at_work::{AtWork, auth, hurried};
use crate::certificates::Authority;
use crate::patience::eventually;

/// The SHA-256 of "checker".
const CHECKER: &str = "sha256:d2d2328e3359f3de3515871090d1316cbcdc5383204c204f9390788c3ef8618f";
const POLICY: &str = "[policies.p]\nlimits = [\"1000/s\"]\n";

/// A server that knows a checker, a reader and an administrator, each from another place.
async fn guarded() -> (AtWork, TempDir, String) {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("reader"), "reader\r\n").unwrap();
    // This variable exists on every machine; its value does not matter.
    let admin = std::env::var("PATH").unwrap();
    let text = format!(
        "[server]\nauth = [\n{{ token = \"{CHECKER}\", roles = [\"check\"] }},\n\
         {{ token = \"file:reader\", roles = [\"read\"] }},\n\
         {{ token = \"${{PATH}}\", roles = [\"admin\"] }},\n]\n{POLICY}"
    );
    let path = directory.path().join("waterclock.toml");
    std::fs::write(&path, text).unwrap();
    (AtWork::serving_file(&path).await, directory, admin)
}

#[tokio::test]
async fn roles() {
    let (server, _directory, admin) = guarded().await;
    let mut client = server.http().await;
    let check = ("POST", "/v1/check", r#"{"policy":"p","key":"k"}"#);
    let read = ("GET", "/v1/policies", "");
    let change = ("DELETE", "/v1/policies/p/keys/k", "");
    for (token, statuses) in
        [("checker", [200, 403, 403]), ("reader", [403, 200, 403]), (&*admin, [200, 200, 200])]
    {
        for ((method, path, body), status) in [check, read, change].into_iter().zip(statuses) {
            let line = format!("authorization: bearer {token}");
            let answer = client.send(method, path, &[&line], body).await;
            assert_eq!(answer.status, status, "{token}: {path}: {}", answer.body);
        }
    }
    for (method, path, body) in [check, read, change, ("GET", "/metrics", "")] {
        let answer = client.send(method, path, &[], body).await;
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let basic = client.send(method, path, &["authorization: Basic Y2hlY2tlcg=="], body).await;
        assert_eq!(basic.status, 401, "{path}");
    }
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
}

/// A neighbour with a stale token slows down itself only; 429 would be taken for a limit.
#[tokio::test]
async fn a_valid_token_passes_whatever_its_neighbours_send() {
    let (server, _directory, _) = guarded().await;
    let mut client = server.http().await;
    let body = r#"{"policy":"p","key":"k"}"#;
    let metric = |name: &str| {
        let metrics = server.running.server().metrics_text();
        let value = metrics.split_once(&format!("{name}{{face=\"http\"}} ")).unwrap().1;
        value.lines().next().unwrap().parse::<u64>().unwrap()
    };
    for guess in 0..12 {
        let line = format!("authorization: Bearer guess-{guess}");
        let before = Instant::now();
        let answer = client.send("POST", "/v1/check", &[&line], body).await;
        assert_eq!(answer.status, 401, "{}", answer.body);
        assert!(!answer.body.contains("guess-"), "{}", answer.body);
        assert!(guess < 10 || before.elapsed() >= Duration::from_millis(500), "answered late");
        let line = "authorization: Bearer checker";
        let answer = client.send("POST", "/v1/check", &[line], body).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    assert_eq!(metric("waterclock_auth_failures_total"), 12);
    assert_eq!(metric("waterclock_auth_delays_total"), 2);
}

/// Behind a proxy, the clients are counted and not the proxy.
#[tokio::test]
async fn unknown_tokens_are_counted_by_the_client_behind_a_proxy() {
    let text = auth(&[("checker", "check")]) + "trusted_proxies = [\"127.0.0.1\"]\n" + POLICY;
    let (server, mut client) = AtWork::with_client(&text).await;
    for n in 0..30 {
        let from = format!("x-forwarded-for: 192.0.2.{}", n % 3);
        let lines = [&*from, "authorization: Bearer stale"];
        assert_eq!(client.send("POST", "/v1/check", &lines, "{}").await.status, 401);
    }
    let delays = "waterclock_auth_delays_total{face=\"http\"} ";
    let metrics = server.running.server().metrics_text();
    assert!(metrics.contains(&format!("{delays}0\n")), "{metrics}");
    let lines = ["x-forwarded-for: 192.0.2.1", "authorization: Bearer stale"];
    assert_eq!(client.send("POST", "/v1/check", &lines, "{}").await.status, 401);
    let metrics = server.running.server().metrics_text();
    assert!(metrics.contains(&format!("{delays}1\n")), "{metrics}");
}

/// More addresses than are counted one by one make no difference to valid tokens.
#[tokio::test]
async fn a_table_full_of_guesses_is_no_obstacle() {
    let text = auth(&[("checker", "check")]) + "trusted_proxies = [\"127.0.0.1\"]\n" + POLICY;
    let server = AtWork::serving(&text).await;
    for n in 0..11_500 {
        let from = || Ipv4Addr::from_bits(n).into();
        server.running.server().attempt(Face::Http, Some("stale"), Role::Check, from);
    }
    let body = r#"{"policy":"p","key":"k"}"#;
    let lines = ["x-forwarded-for: 192.0.2.1", "authorization: Bearer checker"];
    let mut valid = server.http().await;
    for _ in 0..40 {
        assert_eq!(valid.send("POST", "/v1/check", &lines, body).await.status, 200);
    }
}

#[tokio::test]
async fn an_open_server_has_no_administrators() {
    let (_server, mut client) = AtWork::with_client(POLICY).await;
    assert_eq!(client.send("DELETE", "/v1/policies/p/keys/k", &[], "").await.status, 401);
    let body = r#"{"block":true}"#;
    assert_eq!(client.send("PUT", "/v1/policies/p/keys/k/override", &[], body).await.status, 401);
}

#[test]
fn a_public_address_needs_auth() {
    for face in ["http", "grpc", "resp"] {
        let text = |more: &str| format!("[server]\n{face} = \"0.0.0.0:0\"\n{more}\n");
        let complaint = Config::read("t.toml", &text("")).err().unwrap().to_string();
        assert!(
            complaint.starts_with(&format!("t.toml:2:8: `{face}` listens beyond")),
            "{complaint}"
        );
        assert_eq!(complaint.lines().count(), 1);
        let tls = "tls = { cert = \"c\", key = \"k\" }";
        assert!(
            Config::read("t.toml", &text(tls)).is_err(),
            "TLS encrypts and does not authenticate"
        );
        for enough in [
            "allow_unauthenticated = true",
            &format!("auth = [{{ token = \"{CHECKER}\", roles = [\"check\"] }}]"),
            "tls = { cert = \"c\", key = \"k\", client_ca = \"ca\" }",
        ] {
            assert!(Config::read("t.toml", &text(enough)).is_ok(), "{enough}");
        }
    }
}

/// Sockets that were bound elsewhere are checked as well.
#[tokio::test]
async fn a_server_does_not_start_on_an_open_address() {
    let anywhere = Some(SocketAddr::from(([0, 0, 0, 0], 0)));
    let listen = Listen { http: anywhere, grpc: None, resp: None };
    let start = async |text: &str| {
        let listeners = Listeners::bind(&listen).await.unwrap();
        let config = Config::read("t.toml", text).unwrap();
        Running::start(config, listeners, hurried()).await.err().map(|invalid| invalid.to_string())
    };
    let complaint = start(POLICY).await.expect("refused");
    assert!(complaint.starts_with("`http` listens beyond this machine"), "{complaint}");
    assert_eq!(start("[server]\nallow_unauthenticated = true\n").await, None);
}

/// Where a server listens is decided at its start: a file that names another address later must not
/// take the guard away from the one in use.
#[tokio::test]
async fn a_reload_does_not_open_what_was_guarded() {
    let authority = Authority::new();
    let directory = TempDir::new().unwrap();
    authority.for_server().write_to(directory.path());
    std::fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
    let path = directory.path().join("waterclock.toml");
    let tls = |more: &str| {
        format!("[server]\ntls = {{ cert = \"cert.pem\", key = \"key.pem\"{more} }}\n")
    };
    std::fs::write(&path, tls(", client_ca = \"ca.pem\"")).unwrap();
    let anywhere = Some(SocketAddr::from(([0, 0, 0, 0], 0)));
    let listeners =
        Listeners::bind(&Listen { http: anywhere, grpc: None, resp: None }).await.unwrap();
    let config = Config::load(&path).unwrap();
    let running =
        Running::start(config, listeners, hurried()).await.expect("guarded by `client_ca`");
    std::fs::write(&path, tls("")).unwrap();
    running.reload();
    let reloads = running.server().reloads();
    eventually("turned down", async || !reloads.status().last_reload.success).await;
    let why = reloads.status().last_reload.problems.join("\n");
    assert!(why.starts_with("`http` listens beyond this machine"), "{why}");
}
