//! State that outlives the server.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use waterclock_config::{Config, Listen};
use waterclock_server::{Listeners, Running};

use crate::at_work::{AtWork, hurried};
use crate::patience::eventually;

const CHECK: &str = r#"{"policy":"plain","key":"alice","cost":2}"#;
const PEEK: &str = r#"{"policy":"plain","key":"alice"}"#;

fn file(directory: &Path, limits: &str, store: &str) -> std::path::PathBuf {
    let path = directory.join("waterclock.toml");
    let text =
        format!("[store]\nsnapshot = \"state\"\n{store}\n[policies.plain]\nlimits = [{limits}]\n");
    std::fs::write(&path, text).expect("written");
    path
}

const THREE: &str = r#"{ algorithm = "gcra", limit = 1, per = "1h", capacity = 3 }"#;
const FIVE: &str = r#"{ algorithm = "gcra", limit = 1, per = "1h", capacity = 5 }"#;

async fn remaining(server: &AtWork) -> u64 {
    let peek = server.http().await.post("/v1/peek", PEEK).await;
    peek.json()["remaining"].as_u64().expect("a number")
}

#[tokio::test]
async fn a_restart_reopens_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = file(directory.path(), THREE, "");
    let server = AtWork::serving_file(&path).await;
    assert_eq!(server.http().await.post("/v1/check", CHECK).await.status, 200);
    server.running.stop().await;

    let server = AtWork::serving_file(&path).await;
    assert_eq!(remaining(&server).await, 1);
    server.running.stop().await;

    file(directory.path(), FIVE, "");
    let server = AtWork::serving_file(&path).await;
    assert_eq!(remaining(&server).await, 3, "other numbers, and what was spent stays spent");
}

#[tokio::test]
async fn a_kill_forgets_only_what_came_after_the_last_snapshot() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = file(directory.path(), THREE, "snapshot_every = \"20ms\"");
    let server = AtWork::serving_file(&path).await;
    assert_eq!(server.http().await.post("/v1/check", CHECK).await.status, 200);
    // The second file that appears was begun after the check.
    let state = directory.path().join("state");
    for _ in 0..2 {
        _ = std::fs::remove_file(&state);
        eventually("a snapshot", async || state.exists()).await;
    }
    // The first server is not stopped: a second one starts from a copy of what the first has written so far.
    let elsewhere = tempfile::tempdir().expect("a directory");
    std::fs::copy(&state, elsewhere.path().join("state")).expect("copied");
    let second = AtWork::serving_file(&file(elsewhere.path(), THREE, "")).await;
    assert_eq!(remaining(&second).await, 1);
}

#[tokio::test]
async fn what_cannot_be_read_is_put_aside() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = file(directory.path(), THREE, "");
    std::fs::write(directory.path().join("state"), b"no snapshot at all").expect("written");
    let server = AtWork::serving_file(&path).await;
    assert_eq!(remaining(&server).await, 3);
    let aside = std::fs::read(directory.path().join("state.unreadable")).expect("put aside");
    assert_eq!(aside, b"no snapshot at all");
}

/// Only the server's user may read what it knows of keys.
#[tokio::test]
async fn a_snapshot_is_private() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = file(directory.path(), THREE, "");
    // Left by a crash of an older server, open to all.
    std::fs::write(directory.path().join("state.new"), b"half").expect("written");
    let server = AtWork::serving_file(&path).await;
    assert_eq!(server.http().await.post("/v1/check", CHECK).await.status, 200);
    server.running.stop().await;
    let mode = std::fs::metadata(directory.path().join("state")).expect("written").mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
}

async fn refused(path: &Path) -> Option<String> {
    let nowhere = Listeners::bind(&Listen { http: None, grpc: None, resp: None }).await.unwrap();
    let config = Config::load(path).unwrap();
    Running::start(config, nowhere, hurried()).await.err().map(|invalid| invalid.to_string())
}

#[tokio::test]
async fn two_servers_do_not_share_a_snapshot() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = file(directory.path(), THREE, "");
    let server = AtWork::serving_file(&path).await;
    assert_eq!(server.http().await.post("/v1/check", CHECK).await.status, 200);
    let complaint = refused(&path).await.expect("the first one uses it");
    assert!(complaint.contains("is in use by another server"), "{complaint}");
    assert_eq!(remaining(&server).await, 1, "it is not disturbed");
    server.running.stop().await;
    assert_eq!(refused(&path).await, None, "free again");
}

/// A server that has stopped releases its file, whatever still refers to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_within_the_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = file(directory.path(), THREE, "snapshot_every = \"1ms\"");
    let mut before = Vec::new();
    for round in 0..10 {
        let server = AtWork::serving_file(&path).await;
        assert_eq!(remaining(&server).await, if round == 0 { 3 } else { 1 });
        if round == 0 {
            assert_eq!(server.http().await.post("/v1/check", CHECK).await.status, 200);
        }
        before.push(std::sync::Arc::clone(server.running.server()));
        server.running.stop().await;
    }
}

#[tokio::test]
async fn a_path_that_cannot_be_written_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = file(directory.path(), THREE, "");
    let state = directory.path().join("state");
    std::fs::create_dir(&state).expect("made");
    let complaint = refused(&path).await.expect("a directory");
    assert!(complaint.contains("state is not a file"), "{complaint}");
    assert!(state.is_dir(), "it stays where it is");
    std::fs::write(&path, "[store]\nsnapshot = \"nowhere/state\"\n").expect("written");
    let complaint = refused(&path).await.expect("no such directory");
    assert!(complaint.contains("nowhere/state: cannot write "), "{complaint}");
}

#[tokio::test]
async fn a_snapshot_that_fails_is_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = file(directory.path(), THREE, "snapshot_every = \"20ms\"");
    let server = AtWork::serving_file(&path).await;
    let state = directory.path().join("state");
    eventually("a snapshot", async || state.exists()).await;
    let metrics = || server.running.server().metrics_text();
    assert!(metrics().contains("waterclock_snapshot_failures_total 0\n"), "{}", metrics());
    // A file cannot be renamed over a directory.
    std::fs::remove_file(&state).expect("removed");
    while let Err(error) = std::fs::create_dir(&state) {
        assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}");
        _ = std::fs::remove_file(&state);
    }
    eventually("failures", async || !metrics().contains("waterclock_snapshot_failures_total 0\n"))
        .await;
    assert_eq!(server.http().await.post("/v1/check", CHECK).await.status, 200);
}
