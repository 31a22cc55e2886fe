//! State that outlives the server.

use std::path::Path;

use crate::at_work::AtWork;
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
    // The first server is not stopped: a second one starts from what the first has written so far.
    let second = AtWork::serving_file(&path).await;
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
