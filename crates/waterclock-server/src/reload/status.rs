//! The outcome of reloads, and the settings that only a restart changes.

use parking_lot::Mutex;
use serde::Serialize;
use waterclock::{Clock, MonotonicClock};
use waterclock_config::{Address, Config, Invalid, Listen, Micros, StoreConfig, XdsConfig};

use crate::engine::certificate_authority;
use crate::server::Server;

/// The outcome of reloads.
#[derive(Debug, Default)]
pub struct Reloads {
    status: Mutex<ReloadStatus>,
}

/// What `/v1/config` shows.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ReloadStatus {
    /// The file of the configuration.
    pub file: String,
    /// How many configurations were in force so far.
    pub generation: u64,
    /// The outcome of the last reload.
    pub last_reload: LastReload,
    /// Settings that take effect after a restart.
    pub needs_restart: Vec<&'static str>,
}

/// The outcome of the last reload.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct LastReload {
    /// Whether the configuration is in force.
    pub success: bool,
    /// When, in microseconds since the Unix epoch.
    pub at_us: u64,
    /// Why not.
    pub problems: Vec<String>,
}

/// The outcome of one reload: settings that take effect after a restart, or why it failed.
pub(crate) type Reloaded = Result<Vec<&'static str>, Invalid>;

impl Reloads {
    /// The current status.
    #[must_use]
    pub fn status(&self) -> ReloadStatus {
        self.status.lock().clone()
    }

    /// Notes that a control plane's configuration is in force.
    pub(crate) fn note_push(&self, server: &Server) {
        let mut status = self.status.lock();
        status.generation += 1;
        let generation = &server.engine.metrics().generation;
        generation.set(i64::try_from(status.generation).unwrap_or(i64::MAX));
    }

    pub(crate) fn note(&self, server: &Server, file: &str, outcome: &Reloaded) {
        let mut status = self.status.lock();
        status.file = file.to_owned();
        status.generation += u64::from(outcome.is_ok());
        if let Ok(needs_restart) = outcome {
            status.needs_restart.clone_from(needs_restart);
        }
        status.last_reload = LastReload {
            success: outcome.is_ok(),
            at_us: MonotonicClock::default().now().as_nanos() / 1_000,
            problems: outcome.clone().err().map(Invalid::into_lines).unwrap_or_default(),
        };
        let metrics = server.engine.metrics();
        metrics.generation.set(i64::try_from(status.generation).unwrap_or(i64::MAX));
        metrics.last_reload_success.set(i64::from(outcome.is_ok()));
    }
}

/// What takes effect at the next start only.
#[derive(PartialEq, Eq)]
pub(crate) struct RestartSettings {
    listen: Listen,
    bounds: [usize; 3],
    authenticate_within: Micros,
    store: Store,
    xds: Option<XdsConfig>,
}

#[derive(PartialEq, Eq)]
struct Store {
    address: Option<Address>,
    ca: Option<Option<Vec<u8>>>,
    key_secret: Option<String>,
    deadline: Micros,
    numbers: [u64; 4],
    snapshot: (Option<std::path::PathBuf>, Micros),
}

impl RestartSettings {
    pub(crate) fn of(config: &Config) -> RestartSettings {
        let server = &config.server;
        RestartSettings {
            listen: server.listen,
            bounds: [
                server.max_connections,
                server.max_unauthenticated_per_address,
                server.max_receive_bytes,
            ],
            authenticate_within: server.authenticate_within,
            store: Store::of(&config.store),
            xds: config.xds.clone(),
        }
    }

    /// The settings of another configuration that have to wait for a restart.
    pub(crate) fn differs_from(&self, config: &Config) -> Vec<&'static str> {
        let other = RestartSettings::of(config);
        let (a, b) = (&self.listen, &other.listen);
        let differs = [
            ("server.http", a.http != b.http),
            ("server.grpc", a.grpc != b.grpc),
            ("server.resp", a.resp != b.resp),
            ("server.max_connections", self.bounds[0] != other.bounds[0]),
            ("server.max_unauthenticated_per_address", self.bounds[1] != other.bounds[1]),
            ("server.max_receive_bytes", self.bounds[2] != other.bounds[2]),
            ("server.authenticate_within", self.authenticate_within != other.authenticate_within),
            ("store", self.store != other.store),
            ("xds", self.xds != other.xds),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

impl Store {
    /// A value that cannot be read now could be read at the start, so it differs.
    fn of(spec: &StoreConfig) -> Store {
        Store {
            address: spec.address().ok(),
            ca: certificate_authority(spec).ok(),
            key_secret: spec.key_secret().ok(),
            deadline: spec.deadline,
            numbers: [spec.nodes, spec.replicas, spec.max_keys, spec.max_bytes as u64],
            snapshot: (spec.snapshot.clone(), spec.snapshot_every),
        }
    }
}
