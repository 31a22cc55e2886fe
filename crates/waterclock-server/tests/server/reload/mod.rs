//! A configuration that changes while the server is at work.

mod certificates;
mod files;
mod identity;
mod odd_files;
mod state;
mod storm;
mod tiers;

use std::path::PathBuf;

use tempfile::TempDir;
use waterclock_server::ReloadStatus;

use crate::at_work::AtWork;
use crate::patience::eventually;

/// A server that serves `waterclock.toml` in a directory of its own.
pub(crate) struct Scene {
    directory: TempDir,
    pub(crate) server: AtWork,
}

impl Scene {
    pub(crate) async fn new(text: &str) -> Scene {
        Scene::within(TempDir::new().unwrap(), text).await
    }

    /// The same beside files that it names.
    async fn within(directory: TempDir, text: &str) -> Scene {
        let path = directory.path().join("waterclock.toml");
        std::fs::write(&path, text).unwrap();
        Scene { server: AtWork::serving_file(&path).await, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file in place.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn status(&self) -> ReloadStatus {
        self.server.running.server().reloads().status()
    }

    /// Waits until so many configurations were put in force.
    pub(crate) async fn generation(&self, generation: u64) {
        let what = format!("generation {generation}");
        eventually(&what, async || self.status().generation >= generation).await;
    }

    /// Waits until the last configuration was turned down; why.
    async fn turned_down(&self) -> String {
        eventually("turned down", async || !self.status().last_reload.success).await;
        self.status().last_reload.problems.join("\n")
    }

    /// The status of a check.
    async fn check(&self, policy: &str, key: &str, cost: u64) -> u16 {
        let body = serde_json::json!({ "policy": policy, "key": key, "cost": cost });
        self.server.http().await.post("/v1/check", &body.to_string()).await.status
    }

    async fn remaining(&self, policy: &str, key: &str) -> u64 {
        let body = serde_json::json!({ "policy": policy, "key": key });
        let peek = self.server.http().await.post("/v1/peek", &body.to_string()).await;
        peek.json()["remaining"].as_u64().unwrap_or_else(|| panic!("{}", peek.body))
    }
}

/// One policy `p` of so many per year.
fn yearly(limit: u64) -> String {
    format!(
        "[policies.p]\nlimits = [{{ name = \"a\", algorithm = \"gcra\", limit = {limit}, per = \"365d\" }}]\n"
    )
}
