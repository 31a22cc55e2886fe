//! Reload: a changed configuration is read, checked and put in force, whole or not at all.

mod files;
mod status;

pub(crate) use self::files::{Contents, Files};
pub(crate) use self::status::RestartSettings;
pub use self::status::{LastReload, ReloadStatus, Reloads};

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};
use waterclock_config::{Config, Invalid};

use self::files::Watch;
use self::status::Reloaded;
use crate::observe::Face;
use crate::server::{Identity, Server};
use crate::tls::Certificates;

/// Editors and Kubernetes touch a directory several times for one change.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Some file systems report no changes, so the files are also polled.
const POLL_EVERY: Duration = Duration::from_secs(60);

/// Reloads whenever the files have changed or [`Running::reload`](crate::Running::reload) is called.
pub(crate) async fn keep_reloading(
    in_force: InForce,
    path: PathBuf,
    (mut files, mut known): (Files, Contents),
    mut asked: mpsc::Receiver<()>,
) {
    let (mut watch, mut changes) = Watch::new();
    watch.only(files.directories());
    // They may have changed before they were watched.
    let mut look = files.contents() != known;
    loop {
        let must = !std::mem::take(&mut look)
            && tokio::select! {
                Some(()) = asked.recv() => true,
                Some(()) = changes.recv() => {
                    let asked =
                        timeout(DEBOUNCE, asked.recv()).await.is_ok_and(|asked| asked.is_some());
                    _ = changes.try_recv();
                    asked
                }
                () = sleep(POLL_EVERY) => false,
            };
        let contents = files.contents();
        if !must && contents == known {
            continue;
        }
        known = contents;
        let (outcome, found) = in_force.reload(&path).await;
        log_and_note(&in_force, &path, &outcome);
        // An unreadable configuration does not name its other files.
        if let Some(found) = found {
            (files, known) = found;
        }
        // Links may point elsewhere now.
        watch.only(files.directories());
        // Changes are missed while the watches are replaced.
        look = files.contents() != known;
    }
}

fn log_and_note(in_force: &InForce, path: &Path, outcome: &Reloaded) {
    let name = path.display().to_string();
    match outcome {
        Ok(needs_restart) => {
            info!(file = name, "configuration reloaded");
            if !needs_restart.is_empty() {
                warn!(
                    file = name,
                    "these settings take effect after a restart: {}",
                    needs_restart.join(", ")
                );
            }
        }
        Err(invalid) => {
            for line in invalid.clone().into_lines() {
                error!("reload failed, the old configuration stays in force: {line}");
            }
        }
    }
    in_force.server.reloads().note(&in_force.server, &name, outcome);
}

/// What a reload changes.
pub(crate) struct InForce {
    pub(crate) server: Arc<Server>,
    pub(crate) certificates: Certificates,
    /// The addresses in use, whatever a newer file says.
    pub(crate) bound: Vec<(Face, SocketAddr)>,
    /// What only a restart changes.
    pub(crate) at_start: RestartSettings,
}

impl InForce {
    /// Reloads the file. Also returns the files it is made of, if it can be read, and their contents.
    async fn reload(&self, path: &Path) -> (Reloaded, Option<(Files, Contents)>) {
        let config = match read(path) {
            Ok(config) => config,
            Err(invalid) => return (Err(invalid), None),
        };
        let files = Files::of(&config);
        let contents = files.contents_before_use(&config);
        (self.apply(&config).await, Some((files, contents)))
    }

    /// Everything that can fail comes before anything that takes effect.
    async fn apply(&self, config: &Config) -> Reloaded {
        for (face, address) in &self.bound {
            config.server.may_listen(&format!("`{}`", face.name()), *address)?;
        }
        let identity = Identity::new(config)?;
        let renewed = self.certificates.prepare(config)?;
        self.server.engine.reload(config).await?;
        self.server.set_identity(identity);
        self.certificates.renew(renewed);
        Ok(self.at_start.differs_from(config))
    }
}

/// Rejects an empty file: it may be half written, and would remove every policy.
fn read(path: &Path) -> Result<Config, Invalid> {
    let config = Config::load(path)?;
    if config.is_blank {
        let name = path.display();
        return Err(format!("{name}: is empty; to serve no policies, write a comment").into());
    }
    Ok(config)
}
