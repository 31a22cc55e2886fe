//! Tokens, roles, and listeners on public addresses.

use std::net::SocketAddr;

use tempfile::TempDir;
use waterclock_config::{Config, Listen};
use waterclock_server::{Listeners, Running};

use crate::at_work::{AtWork, hurried};
use crate::certificates::Authority;

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

#[tokio::test]
async fn guessing_is_limited() {
    let (server, _directory, _) = guarded().await;
    let mut client = server.http().await;
    let body = r#"{"policy":"p","key":"k"}"#;
    let mut statuses = Vec::new();
    for guess in 0..12 {
        let line = format!("authorization: Bearer guess-{guess}");
        let answer = client.send("POST", "/v1/check", &[&line], body).await;
        assert!(!answer.body.contains("guess-"), "{}", answer.body);
        if answer.status == 429 {
            assert!(answer.header("retry-after").is_some());
        }
        statuses.push(answer.status);
    }
    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses[10..], [429; 2]);
    let metrics = server.running.server().metrics_text();
    assert!(metrics.contains("waterclock_auth_failures_total{face=\"http\"} 12"), "{metrics}");
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
    crate::patience::eventually("turned down", async || !reloads.status().last_reload.success)
        .await;
    let why = reloads.status().last_reload.problems.join("\n");
    assert!(why.starts_with("`http` listens beyond this machine"), "{why}");
}
