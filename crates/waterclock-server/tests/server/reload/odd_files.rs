//! Pipes, directories and huge files in place of the files that a configuration is made of.

use std::path::Path;
use std::process::Command;

use tokio::time::timeout;

use super::{Scene, yearly};
use crate::certificates::Authority;
use crate::patience::{LONG, eventually};

/// Puts a pipe in the place of a file. Opening it waits for a writer that never comes.
fn replace_by_pipe(path: &Path) {
    let pipe = path.with_extension("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::rename(pipe, path).unwrap();
}

impl Scene {
    async fn complains_of(&self, what: &str) {
        eventually(what, async || {
            self.status().last_reload.problems.iter().any(|line| line.contains(what))
        })
        .await;
    }

    async fn is_healthy(&self) {
        assert_eq!(self.server.http().await.get("/healthz").await.status, 200);
    }

    async fn stops(self) {
        timeout(LONG, self.server.running.stop()).await.expect("stops");
    }
}

const PIPE: &str = "this is a pipe, a socket or a device, not a file";

#[tokio::test]
async fn a_pipe_in_place_of_the_configuration() {
    let scene = Scene::new(&yearly(1)).await;
    let path = scene.path("waterclock.toml");
    replace_by_pipe(&path);
    scene.complains_of(PIPE).await;
    scene.is_healthy().await;
    assert_eq!(scene.remaining("p", "k").await, 1);
    // A good file again.
    scene.write("new", &yearly(7));
    std::fs::rename(scene.path("new"), &path).unwrap();
    scene.generation(2).await;
    assert_eq!(scene.remaining("p", "k").await, 7);
    // And stopping does not wait for it.
    replace_by_pipe(&path);
    scene.complains_of(PIPE).await;
    scene.stops().await;
}

#[tokio::test]
async fn a_pipe_in_place_of_a_secret() {
    let token = "[server]\nauth = [{ token = \"file:token\", roles = [\"check\", \"read\"] }]\n";
    let directory = tempfile::TempDir::new().unwrap();
    std::fs::write(directory.path().join("token"), "secret\n").unwrap();
    let scene = Scene::within(directory, &format!("{token}{}", yearly(1))).await;
    replace_by_pipe(&scene.path("token"));
    scene.complains_of(PIPE).await;
    scene.is_healthy().await;
    scene.write("new", "secret\n");
    std::fs::rename(scene.path("new"), scene.path("token")).unwrap();
    scene.generation(2).await;
    scene.stops().await;
}

#[tokio::test]
async fn a_pipe_in_place_of_a_certificate() {
    let directory = tempfile::TempDir::new().unwrap();
    Authority::new().for_server().write_to(directory.path());
    let tls = "[server]\ntls = { cert = \"cert.pem\", key = \"key.pem\" }\n";
    let scene = Scene::within(directory, &format!("{tls}{}", yearly(1))).await;
    replace_by_pipe(&scene.path("cert.pem"));
    scene.complains_of(PIPE).await;
    scene.stops().await;
}

#[tokio::test]
async fn too_large_or_a_directory() {
    let scene = Scene::new(&yearly(1)).await;
    let path = scene.path("waterclock.toml");
    let large = format!("{}#{}", yearly(2), " ".repeat(16 << 20));
    scene.write("new", &large);
    std::fs::rename(scene.path("new"), &path).unwrap();
    scene.complains_of("is larger than 16 MiB").await;
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    scene.complains_of("this is a directory, not a file").await;
    scene.is_healthy().await;
    std::fs::remove_dir(&path).unwrap();
    scene.write("waterclock.toml", &format!("{}#{}", yearly(3), " ".repeat(1 << 20)));
    scene.generation(2).await;
    assert_eq!(scene.remaining("p", "k").await, 3);
}
