//! Certificates that are renewed while the server is at work.

use tempfile::TempDir;

use crate::at_work::AtWork;
use crate::certificates::Authority;
use crate::client::Client;
use crate::patience::eventually;

const TEXT: &str = "[server]\ntls = { cert = \"cert.pem\", key = \"key.pem\" }\n";

/// Only the certificate changes, not the file that names it. Open connections stay.
#[tokio::test]
async fn a_renewed_certificate_is_shown_to_new_connections() {
    let (old, new) = (Authority::new(), Authority::new());
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("waterclock.toml");
    std::fs::write(&path, TEXT).unwrap();
    old.for_server().write_to(directory.path());
    let server = AtWork::serving_file(&path).await;
    let address = server.http_address();
    let mut before = Client::over(old.connect(address, None).await.unwrap());
    assert_eq!(before.get("/healthz").await.status, 200);
    assert!(new.connect(address, None).await.is_err());
    new.for_server().write_to(directory.path());
    eventually("renewed", async || new.connect(address, None).await.is_ok()).await;
    assert!(old.connect(address, None).await.is_err());
    assert_eq!(before.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_bad_certificate_changes_nothing() {
    let authority = Authority::new();
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("waterclock.toml");
    let with = |policy: &str| format!("{TEXT}[policies.{policy}]\nlimits = [\"1/h\"]\n");
    std::fs::write(&path, with("old")).unwrap();
    authority.for_server().write_to(directory.path());
    let server = AtWork::serving_file(&path).await;
    let said = || server.running.server().reloads().status();
    // The key of another certificate, and a policy that must not come alone.
    std::fs::write(directory.path().join("key.pem"), authority.for_server().key).unwrap();
    std::fs::write(&path, with("new")).unwrap();
    eventually("turned down", async || !said().last_reload.success).await;
    let why = said().last_reload.problems.join("\n");
    assert!(why.contains("cert.pem") && why.contains("key.pem"), "{why}");
    let stream = authority.connect(server.http_address(), None).await.expect("the old certificate");
    let mut client = Client::over(stream);
    assert_eq!(client.get("/v1/policies/old").await.status, 200);
    assert_eq!(client.get("/v1/policies/new").await.status, 404);
    authority.for_server().write_to(directory.path());
    eventually("the next good one", async || said().last_reload.success).await;
    assert_eq!(client.get("/v1/policies/new").await.status, 200);
}

#[tokio::test]
async fn tls_is_turned_off_by_a_restart_only() {
    let authority = Authority::new();
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("waterclock.toml");
    std::fs::write(&path, TEXT).unwrap();
    authority.for_server().write_to(directory.path());
    let server = AtWork::serving_file(&path).await;
    std::fs::write(&path, "[policies.p]\nlimits = [\"1/h\"]\n").unwrap();
    let said = || server.running.server().reloads().status();
    eventually("turned down", async || !said().last_reload.success).await;
    assert!(said().last_reload.problems[0].contains("by a restart only"));
    assert!(authority.connect(server.http_address(), None).await.is_ok());
}
