//! Settings that a reload cannot change.

use waterclock_config::{Address, Config, Listen, Micros, StoreConfig};

use crate::redis_store::certificate_authority;

/// What takes effect at the next start only.
#[derive(PartialEq, Eq)]
pub(crate) struct RestartSettings {
    listen: Listen,
    store: Store,
}

#[derive(PartialEq, Eq)]
struct Store {
    address: Option<Address>,
    ca: Option<Option<Vec<u8>>>,
    key_secret: Option<String>,
    deadline: Micros,
    numbers: (u64, u64),
    snapshot: (Option<std::path::PathBuf>, Micros),
}

impl RestartSettings {
    pub(crate) fn of(config: &Config) -> RestartSettings {
        RestartSettings { listen: config.server.listen, store: Store::of(&config.store) }
    }

    /// The settings of another configuration that have to wait for a restart.
    pub(crate) fn differs_from(&self, config: &Config) -> Vec<&'static str> {
        let other = RestartSettings::of(config);
        let (a, b) = (&self.listen, &other.listen);
        let differs = [
            ("server.http", a.http != b.http),
            ("server.grpc", a.grpc != b.grpc),
            ("server.resp", a.resp != b.resp),
            ("store", self.store != other.store),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

impl Store {
    /// What cannot be looked up now was looked up at the start: then it differs.
    fn of(spec: &StoreConfig) -> Store {
        Store {
            address: spec.address().ok(),
            ca: certificate_authority(spec).ok(),
            key_secret: spec.key_secret().ok(),
            deadline: spec.deadline,
            numbers: (spec.nodes, spec.max_keys),
            snapshot: (spec.snapshot.clone(), spec.snapshot_every),
        }
    }
}
