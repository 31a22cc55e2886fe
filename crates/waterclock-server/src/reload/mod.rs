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
use waterclock::Clock;
use waterclock_config::{Config, Invalid, Micros};

use self::files::Watch;
use self::status::Reloaded;
use crate::engine::Plan;
use crate::examine::examine_policies;
use crate::observe::Face;
use crate::off_workers::off_workers;
use crate::server::{Identity, Server};
use crate::tls::{Certificates, Renewed};

/// Editors and Kubernetes touch a directory several times for one change.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Some file systems report no changes, so the files are also polled.
const POLL_EVERY: Duration = Duration::from_secs(60);

/// Reloads whenever the files have changed or [`Running::reload`](crate::Running::reload) is called.
///
/// Files are read, links followed and policies built away from the threads that answer: a file system may hang, and
/// policies come by the thousand.
pub(crate) async fn keep_reloading(
    in_force: Arc<InForce>,
    path: PathBuf,
    (mut files, mut known): (Files, Contents),
    mut asked: mpsc::Receiver<()>,
) {
    let (watch, mut changes) = match Watch::start() {
        Ok((watch, changes)) => (Some(watch), changes),
        Err(error) => {
            warn!("cannot watch files, so changes are noticed by polling: {error}");
            (None, mpsc::channel(1).1)
        }
    };
    let watch_only = |files: &Files| watch.iter().for_each(|watch| watch.only(files));
    // They may have changed before they are watched, which is then reported as a change.
    watch_only(&files);
    loop {
        let must = tokio::select! {
            Some(()) = asked.recv() => true,
            Some(()) = changes.recv() => {
                let asked =
                    timeout(DEBOUNCE, asked.recv()).await.is_ok_and(|asked| asked.is_some());
                _ = changes.try_recv();
                asked
            }
            () = sleep(POLL_EVERY) => false,
        };
        let contents = {
            let files = files.clone();
            off_workers(move || files.contents()).await
        };
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
        watch_only(&files);
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

/// A new configuration that can be put in force.
pub(crate) struct Prepared {
    plan: Plan,
    shows_keys: bool,
    max_throttle_period: Micros,
    identity: Identity,
    certificates: Renewed,
    needs_restart: Vec<&'static str>,
}

impl InForce {
    /// Reloads the file. Also returns the files it is made of, if it can be read, and their contents.
    async fn reload(self: &Arc<Self>, path: &Path) -> (Reloaded, Option<(Files, Contents)>) {
        let (this, path) = (Arc::clone(self), path.to_owned());
        let (prepared, found) = off_workers(move || this.read(&path)).await;
        let outcome = match prepared {
            Ok(prepared) => self.apply(prepared).await,
            Err(invalid) => Err(invalid),
        };
        (outcome, found)
    }

    /// Reads the file, and those it names. Blocks.
    fn read(&self, path: &Path) -> (Result<Prepared, Invalid>, Option<(Files, Contents)>) {
        let config = match read(path) {
            Ok(config) => config,
            Err(invalid) => return (Err(invalid), None),
        };
        let files = Files::of(&config);
        let contents = files.contents_before_use(&config);
        (self.prepare(&config), Some((files, contents)))
    }

    pub(crate) fn prepare(&self, config: &Config) -> Result<Prepared, Invalid> {
        for (face, address) in &self.bound {
            config.server.may_listen(&format!("`{}`", face.name()), *address)?;
        }
        examine_policies(config)?;
        Ok(Prepared {
            identity: Identity::new(config)?,
            certificates: self.certificates.prepare(config)?,
            plan: self.server.engine.prepare(config)?,
            shows_keys: config.server.show_keys,
            max_throttle_period: config.server.max_throttle_period,
            needs_restart: self.at_start.differs_from(config),
        })
    }

    /// Everything that can fail comes before anything that takes effect.
    pub(crate) async fn apply(&self, prepared: Prepared) -> Reloaded {
        let engine = &self.server.engine;
        engine.activate(prepared.plan).await?;
        engine.refused().show_keys(prepared.shows_keys, engine.metrics().clock().now());
        engine.set_max_throttle_period(prepared.max_throttle_period);
        self.server.set_identity(prepared.identity);
        self.certificates.renew(prepared.certificates);
        Ok(prepared.needs_restart)
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
