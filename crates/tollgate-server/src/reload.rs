//! A changed configuration: read, checked, and put in force whole or not at all.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::{RecursiveMode, Watcher};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tollgate::{Clock, MonotonicClock};
use tracing::{error, info, warn};

use crate::config::{Config, Invalid};
use crate::server::{Identity, Server};

/// Editors and Kubernetes touch a directory several times for one change.
const SETTLES: Duration = Duration::from_millis(100);

/// What came of the configurations that were offered.
#[derive(Debug, Default)]
pub struct Reloads {
    said: Mutex<Said>,
}

/// As `/v1/config` shows it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Said {
    /// Where the configuration comes from.
    pub file: String,
    /// How many configurations were put in force.
    pub generation: u64,
    /// What came of the last one that was offered.
    pub last_reload: LastReload,
}

/// What came of the last configuration that was offered.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LastReload {
    /// Whether it is in force.
    pub success: bool,
    /// When, in microseconds since the Unix epoch.
    pub at_us: u64,
    /// Why it is not in force.
    pub problems: Vec<String>,
}

impl Reloads {
    /// What there is to say.
    #[must_use]
    pub fn said(&self) -> Said {
        self.said.lock().clone()
    }

    pub(crate) fn note(&self, server: &Server, file: &str, came: &Result<(), Invalid>) {
        let mut said = self.said.lock();
        said.file = file.to_owned();
        said.generation += u64::from(came.is_ok());
        said.last_reload = LastReload {
            success: came.is_ok(),
            at_us: MonotonicClock::default().now().as_nanos() / 1_000,
            problems: came.clone().err().map(Invalid::into_lines).unwrap_or_default(),
        };
        let metrics = server.engine.metrics();
        metrics.generation.set(i64::try_from(said.generation).unwrap_or(i64::MAX));
        metrics.last_reload_success.set(i64::from(came.is_ok()));
    }
}

/// Offers the file to the server once more. The old configuration stays if anything is wrong.
pub(crate) async fn reload(server: &Server, path: &Path, after: impl FnOnce(&Config)) {
    let name = path.display().to_string();
    let came = offer(server, path, after).await;
    match &came {
        Ok(()) => info!(file = name, "the configuration was read again and is in force"),
        Err(invalid) => {
            for line in invalid.clone().into_lines() {
                error!("the old configuration stays: {line}");
            }
        }
    }
    server.reloads().note(server, &name, &came);
}

async fn offer(server: &Server, path: &Path, after: impl FnOnce(&Config)) -> Result<(), Invalid> {
    let config = Config::load(Some(path))?;
    config.serveable()?;
    let identity = Identity::new(&config)?;
    server.engine.adopt(&config).await?;
    server.believe(identity);
    after(&config);
    Ok(())
}

/// Something happened in the directory of the file: time to look at it again.
///
/// The directory is watched, not the file: editors replace files, and Kubernetes swaps a link above
/// them.
pub(crate) fn watch(path: &Path) -> (Option<impl Watcher + use<>>, mpsc::Receiver<()>) {
    let (tell, told) = mpsc::channel(1);
    let on_event = move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // Told once is enough until somebody listens.
            _ = tell.try_send(());
        }
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let watcher = notify::recommended_watcher(on_event).and_then(|mut watcher| {
        watcher.watch(directory, RecursiveMode::NonRecursive).map(|()| watcher)
    });
    match watcher {
        Ok(watcher) => (Some(watcher), told),
        Err(error) => {
            warn!("changes of the configuration are not noticed ({error}); send SIGHUP instead");
            (None, told)
        }
    }
}

/// Reloads whenever the file's text has changed or somebody asks, until the server ends.
pub(crate) async fn keep_reloading(
    server: Arc<Server>,
    path: std::path::PathBuf,
    mut asked: mpsc::Receiver<()>,
    after: impl Fn(&Config),
) {
    let (_watcher, mut told) = watch(&path);
    let mut known = std::fs::read(&path).ok();
    loop {
        let must = tokio::select! {
            Some(()) = asked.recv() => true,
            Some(()) = told.recv() => {
                sleep(SETTLES).await;
                _ = told.try_recv();
                false
            }
            else => return,
        };
        let text = std::fs::read(&path).ok();
        if must || text != known {
            known = text;
            reload(&server, &path, &after).await;
        }
    }
}
