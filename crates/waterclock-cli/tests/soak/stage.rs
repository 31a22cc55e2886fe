//! A Redis, servers that share it, and their policies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waterclock_conformance::real::RedisServer;

use crate::oracle::Published;
use crate::server::Server;

pub(crate) const SERVERS: usize = 3;
/// Reservations of `held` and `slots` live that long at most.
pub(crate) const TTL: Duration = Duration::from_secs(3);
pub(crate) const SLOTS: u64 = 4;
pub(crate) const HELD: u64 = 1_000_000;

/// Policies whose keys are checked.
pub(crate) const PUBLISHED: [Published; 4] = [
    // A bucket of which only Redis decides.
    Published { policy: "strict", capacity: 5, limit: 5, per: SECOND, leased: 0 },
    // A window.
    Published { policy: "window", capacity: 10, limit: 10, per: TWO_SECONDS, leased: 0 },
    // A bucket of which each server has a share while Redis is away.
    Published { policy: "shared", capacity: 6, limit: 6, per: SECOND, leased: 0 },
    // One whose units are taken in batches of 3.
    Published { policy: "leased", capacity: 90, limit: 90, per: SECOND, leased: 9 },
];
const SECOND: Duration = Duration::from_secs(1);
const TWO_SECONDS: Duration = Duration::from_secs(2);

pub(crate) struct Stage {
    pub(crate) servers: Vec<Arc<Server>>,
    pub(crate) redis: RedisServer,
    rounds: AtomicU64,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let redis = RedisServer::start();
        let text = configuration(&redis.url(), "");
        let servers = (0..SERVERS).map(|_| Arc::new(Server::start(&text))).collect();
        Self { servers, redis, rounds: AtomicU64::new(0) }
    }

    /// What the servers are configured with, and more policies.
    pub(crate) fn configuration(&self, more: &str) -> String {
        configuration(&self.redis.url(), more)
    }

    /// A number for the keys of a round.
    pub(crate) fn next_round(&self) -> u64 {
        self.rounds.fetch_add(1, Ordering::Relaxed)
    }
}

fn configuration(url: &str, more: &str) -> String {
    format!(
        r#"
[server]
auth = [{{ token = "${{SOAK_TOKEN}}", roles = ["admin"] }}]

[store]
url = "{url}"
nodes = {SERVERS}
deadline = "250ms"
key_secret = "the same everywhere"

[defaults]
on_store_error = "deny"

[policies.strict]
limits = ["5/s"]

[policies.window]
limits = [{{ algorithm = "rolling-window", limit = 10, per = "2s" }}]

[policies.shared]
on_store_error = "local"
limits = ["6/s"]

[policies.leased]
lease = {{ size = 3, ttl = "1s" }}
limits = ["90/s"]

[policies.held]
limits = [{{ algorithm = "fixed-window", limit = {HELD}, per = "52w" }}]

[policies.slots]
limits = [{{ algorithm = "concurrency", limit = {SLOTS}, lease = "3s" }}]
{more}"#
    )
}
