//! Every way in which a file can come to hold something else, and files that hold nonsense.

use std::os::unix::fs::symlink;

use tempfile::TempDir;
use waterclock_config::Config;

use super::{Scene, yearly};
use crate::at_work::{AtWork, hurried};
use crate::patience::eventually;

#[tokio::test]
async fn rewritten_in_place() {
    let scene = Scene::new(&yearly(1)).await;
    scene.write("waterclock.toml", &yearly(7));
    scene.generation(2).await;
    assert_eq!(scene.remaining("p", "k").await, 7);
}

#[tokio::test]
async fn replaced_by_another_file() {
    let scene = Scene::new(&yearly(1)).await;
    for limit in [7, 8, 9] {
        scene.write("new", &yearly(limit));
        std::fs::rename(scene.path("new"), scene.path("waterclock.toml")).unwrap();
        scene.generation(limit - 5).await;
        assert_eq!(scene.remaining("p", "k").await, limit);
    }
}

/// A directory as Kubernetes mounts it: the file is a link into `..data`, which is a link itself, and
/// which is replaced.
struct Mounted {
    directory: TempDir,
}

impl Mounted {
    fn new(text: &str) -> Mounted {
        let mounted = Mounted { directory: TempDir::new().unwrap() };
        mounted.swap("..1", text);
        symlink("..data/waterclock.toml", mounted.path("waterclock.toml")).unwrap();
        mounted
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn swap(&self, name: &str, text: &str) {
        std::fs::create_dir(self.path(name)).unwrap();
        std::fs::write(self.path(name).join("waterclock.toml"), text).unwrap();
        symlink(name, self.path("..data_tmp")).unwrap();
        let before = std::fs::read_link(self.path("..data"));
        std::fs::rename(self.path("..data_tmp"), self.path("..data")).unwrap();
        if let Ok(before) = before {
            std::fs::remove_dir_all(self.path(before.to_str().unwrap())).unwrap();
        }
    }
}

async fn has_limit(server: &AtWork, limit: u64) {
    let limits = async || {
        let peek = server.http().await.post("/v1/peek", r#"{"policy":"p","key":"k"}"#).await;
        peek.json()["remaining"] == limit
    };
    eventually("the new limit", limits).await;
}

#[tokio::test]
async fn mounted_by_kubernetes() {
    let mounted = Mounted::new(&yearly(1));
    let server = AtWork::serving_file(&mounted.path("waterclock.toml")).await;
    for (name, limit) in [("..2", 7), ("..3", 8), ("..4", 9)] {
        mounted.swap(name, &yearly(limit));
        has_limit(&server, limit).await;
    }
}

/// The file that the server was told of is a link in a directory where nothing ever happens.
#[tokio::test]
async fn mounted_elsewhere() {
    let mounted = Mounted::new(&yearly(1));
    let elsewhere = TempDir::new().unwrap();
    let link = elsewhere.path().join("waterclock.toml");
    symlink(mounted.path("waterclock.toml"), &link).unwrap();
    let server = AtWork::serving_file(&link).await;
    for (name, limit) in [("..2", 7), ("..3", 8)] {
        mounted.swap(name, &yearly(limit));
        has_limit(&server, limit).await;
    }
}

/// As releases are put in place: the directory is a link, and the link is swapped.
#[tokio::test]
async fn in_a_directory_that_is_swapped() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (name, limit) in [("one", 1), ("two", 7)] {
        std::fs::create_dir_all(path(name).join("etc")).unwrap();
        std::fs::write(path(name).join("etc/waterclock.toml"), yearly(limit)).unwrap();
    }
    symlink("one", path("current")).unwrap();
    let server = AtWork::serving_file(&path("current").join("etc/waterclock.toml")).await;
    has_limit(&server, 1).await;
    symlink("two", path("next")).unwrap();
    std::fs::rename(path("next"), path("current")).unwrap();
    has_limit(&server, 7).await;
}

/// Between the first reading and the first watching there is time for a change.
#[tokio::test]
async fn changed_before_it_was_watched() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("waterclock.toml");
    std::fs::write(&path, yearly(1)).unwrap();
    let config = Config::load(&path).unwrap();
    std::fs::write(&path, yearly(7)).unwrap();
    let server = AtWork::with(config, hurried()).await;
    has_limit(&server, 7).await;
}

#[tokio::test]
async fn read_again_when_asked() {
    let scene = Scene::new(&yearly(1)).await;
    scene.server.running.reload();
    scene.generation(2).await;
    assert_eq!(scene.remaining("p", "k").await, 1);
}

#[tokio::test]
async fn a_bad_file_changes_nothing_and_is_told_of() {
    let scene = Scene::new(&yearly(5)).await;
    assert_eq!(scene.check("p", "k", 2).await, 200);
    let bad = "[policies.p]\nlimits = [\"nonsense\"]\n";
    for (text, says) in
        [(bad, "waterclock.toml:2:"), ("", "is empty"), ("[server]\nhtp = \"\"\n", "`htp`")]
    {
        scene.write("waterclock.toml", text);
        eventually("the complaint", async || {
            scene.status().last_reload.problems.iter().any(|line| line.contains(says))
        })
        .await;
        let mut client = scene.server.http().await;
        let config = client.get("/v1/config").await.json();
        assert_eq!(config["last_reload"]["success"], false);
        assert!(config["last_reload"]["problems"][0].as_str().unwrap().contains(says));
        let metrics = client.get("/metrics").await.body;
        assert!(metrics.contains("waterclock_config_last_reload_success 0"), "{metrics}");
        assert_eq!(scene.remaining("p", "k").await, 3);
    }
    let before = scene.status().generation;
    scene.write("waterclock.toml", &yearly(6));
    scene.generation(before + 1).await;
    let mut client = scene.server.http().await;
    assert_eq!(client.get("/v1/config").await.json()["last_reload"]["success"], true);
    let metrics = client.get("/metrics").await.body;
    assert!(metrics.contains("waterclock_config_last_reload_success 1"), "{metrics}");
    assert!(metrics.contains("waterclock_config_generation 2"), "{metrics}");
    assert_eq!(scene.remaining("p", "k").await, 4);
}

#[tokio::test]
async fn what_takes_a_restart_is_named() {
    let scene = Scene::new(&yearly(5)).await;
    let changed = format!("[server]\nhttp = \"\"\n[store]\nmax_keys = 7\n{}", yearly(6));
    scene.write("waterclock.toml", &changed);
    scene.generation(2).await;
    let config = scene.server.http().await.get("/v1/config").await.json();
    assert_eq!(config["needs_restart"], serde_json::json!(["server.http", "store"]));
    scene.write("waterclock.toml", &yearly(6));
    scene.generation(3).await;
    assert_eq!(scene.status().needs_restart, [""; 0]);
    scene.write("waterclock.toml", &format!("[store]\nca = \"ca.pem\"\n{}", yearly(6)));
    scene.generation(4).await;
    assert_eq!(scene.status().needs_restart, ["store"]);
}
