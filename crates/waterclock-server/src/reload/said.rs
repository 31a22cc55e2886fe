//! What came of the configurations that were offered.

use parking_lot::Mutex;
use serde::Serialize;
use waterclock::{Clock, MonotonicClock};

use crate::server::Server;
use waterclock_config::Invalid;

/// What came of the configurations that were offered.
#[derive(Debug, Default)]
pub struct Reloads {
    status: Mutex<ReloadStatus>,
}

/// As `/v1/config` shows it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReloadStatus {
    /// Where the configuration comes from.
    pub file: String,
    /// How many configurations were put in force.
    pub generation: u64,
    /// What came of the last one that was offered.
    pub last_reload: LastReload,
    /// Settings of the configuration in force that take a restart: the ones before still hold.
    pub needs_restart: Vec<&'static str>,
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

/// What came of one configuration: the settings that take a restart, or why it is not in force.
pub(crate) type Came = Result<Vec<&'static str>, Invalid>;

impl Reloads {
    /// What there is to say.
    #[must_use]
    pub fn status(&self) -> ReloadStatus {
        self.status.lock().clone()
    }

    pub(crate) fn note(&self, server: &Server, file: &str, came: &Came) {
        let mut status = self.status.lock();
        status.file = file.to_owned();
        status.generation += u64::from(came.is_ok());
        if let Ok(needs_restart) = came {
            status.needs_restart.clone_from(needs_restart);
        }
        status.last_reload = LastReload {
            success: came.is_ok(),
            at_us: MonotonicClock::default().now().as_nanos() / 1_000,
            problems: came.clone().err().map(Invalid::into_lines).unwrap_or_default(),
        };
        let metrics = server.engine.metrics();
        metrics.generation.set(i64::try_from(status.generation).unwrap_or(i64::MAX));
        metrics.last_reload_success.set(i64::from(came.is_ok()));
    }
}
