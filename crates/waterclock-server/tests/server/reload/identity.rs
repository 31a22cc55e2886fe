//! Reloading tokens and trusted proxies.

use super::Scene;
use crate::patience::eventually;

const POLICY: &str = "[policies.p]\nkey = [\"client_ip\"]\nlimits = [\"1/h\"]\n";

fn with_token(token: &str) -> String {
    format!("[server]\nauth = [{{ token = \"{token}\", roles = [\"check\", \"read\"] }}]\n{POLICY}")
}

async fn status_with(scene: &Scene, token: &str) -> u16 {
    let authorization = format!("authorization: Bearer {token}");
    scene.server.http().await.send("GET", "/v1/config", &[&authorization], "").await.status
}

#[tokio::test]
async fn tokens_are_swapped() {
    // The SHA-256 of "old", and of "new".
    let old = "sha256:cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4";
    let new = "sha256:11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437";
    let scene = Scene::new(&with_token(old)).await;
    assert_eq!(status_with(&scene, "old").await, 200);
    assert_eq!(status_with(&scene, "new").await, 401);
    scene.write("waterclock.toml", &with_token(new));
    scene.generation(2).await;
    assert_eq!(status_with(&scene, "old").await, 401);
    assert_eq!(status_with(&scene, "new").await, 200);
}

/// The configuration does not change when the file does that it only names.
#[tokio::test]
async fn a_secret_in_a_file_is_read_again() {
    let directory = tempfile::TempDir::new().unwrap();
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "old\n").unwrap();
    let scene = Scene::new(&with_token(&format!("file:{}", secret.display()))).await;
    assert_eq!(status_with(&scene, "old").await, 200);
    std::fs::write(&secret, "new\n").unwrap();
    scene.generation(2).await;
    assert_eq!(status_with(&scene, "old").await, 401);
    assert_eq!(status_with(&scene, "new").await, 200);
    std::fs::remove_file(&secret).unwrap();
    let why = scene.turned_down().await;
    assert!(why.contains("waterclock.toml:2:") && why.contains("secret"), "{why}");
    assert_eq!(status_with(&scene, "new").await, 200, "the old configuration stays");
    std::fs::write(&secret, "newer\n").unwrap();
    scene.generation(3).await;
    assert_eq!(status_with(&scene, "newer").await, 200);
}

#[tokio::test]
async fn trusted_proxies_are_swapped() {
    let scene = Scene::new(POLICY).await;
    let authorize = async |client: &str| {
        let forwarded = format!("x-forwarded-for: {client}");
        let mut http = scene.server.http().await;
        http.send("GET", "/v1/authorize?policy=p", &[&forwarded], "").await.status
    };
    assert_eq!(authorize("192.0.2.1").await, 200);
    assert_eq!(authorize("192.0.2.2").await, 429, "no proxy is trusted, so it is the same client");
    scene.write(
        "waterclock.toml",
        &format!("[server]\ntrusted_proxies = [\"127.0.0.1\"]\n{POLICY}"),
    );
    scene.generation(2).await;
    eventually("believed", async || authorize("192.0.2.3").await == 200).await;
    assert_eq!(authorize("192.0.2.4").await, 200);
    assert_eq!(authorize("192.0.2.4").await, 429);
}
