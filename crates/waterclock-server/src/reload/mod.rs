//! A changed configuration: read, checked, and put in force whole or not at all.

mod files;
mod offer;
mod restart;
mod said;
mod watch;

pub(crate) use self::files::{Contents, Files};
pub(crate) use self::offer::InForce;
pub(crate) use self::restart::RestartSettings;
pub use self::said::{LastReload, ReloadStatus, Reloads};

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use self::said::Came;
use self::watch::Watch;

/// Editors and Kubernetes touch a directory several times for one change.
const SETTLES: Duration = Duration::from_millis(100);
/// Not every file system tells of changes, so the files are looked at now and then anyway.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Reloads whenever the files have changed or somebody asks, until the server ends.
pub(crate) async fn keep_reloading(
    in_force: InForce,
    path: PathBuf,
    (mut files, mut known): (Files, Contents),
    mut asked: mpsc::Receiver<()>,
) {
    let (mut watch, mut told) = Watch::new();
    watch.only(files.directories());
    // They may have changed before anybody watched them.
    let mut look = files.contents() != known;
    loop {
        let must = !std::mem::take(&mut look)
            && tokio::select! {
                Some(()) = asked.recv() => true,
                Some(()) = told.recv() => {
                    let asked =
                        timeout(SETTLES, asked.recv()).await.is_ok_and(|asked| asked.is_some());
                    _ = told.try_recv();
                    asked
                }
                () = sleep(LOOK_EVERY) => false,
            };
        let contents = files.contents();
        if !must && contents == known {
            continue;
        }
        known = contents;
        let (came, found) = in_force.offer(&path).await;
        tell(&in_force, &path, &came);
        // A file that cannot be read does not say which others it needs.
        if let Some(found) = found {
            (files, known) = found;
        }
        // Links may lead elsewhere now.
        watch.only(files.directories());
        // While watches change, nobody watches.
        look = files.contents() != known;
    }
}

fn tell(in_force: &InForce, path: &std::path::Path, came: &Came) {
    let name = path.display().to_string();
    match came {
        Ok(needs_restart) => {
            info!(file = name, "the configuration was read again and is in force");
            if !needs_restart.is_empty() {
                warn!(file = name, "these take a restart: {}", needs_restart.join(", "));
            }
        }
        Err(invalid) => {
            for line in invalid.clone().into_lines() {
                error!("the old configuration stays: {line}");
            }
        }
    }
    in_force.server.reloads().note(&in_force.server, &name, came);
}
