//! Whole servers without sockets and files, on virtual time: for the simulation of nodes, and no part of the API.
//!
//! Everything goes through the code that serves: the engine with its reloads, lines, snapshots and background tasks.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use waterclock::StoreError;
use waterclock_config::{Config, Invalid};

use crate::connections::Place;
use crate::engine::{Check, Engine, PendingCheck, Reply};
pub use crate::engine::{Disk, Output};
use crate::listen::Listeners;
use crate::observe::Face;
use crate::off_workers::off_workers;
use crate::reload::InForce;
use crate::run::Running;
use crate::server::Server;
use crate::timing::Timing;
use crate::waits::WaitError;

thread_local! {
    static DISK: RefCell<Option<Arc<dyn Disk>>> = const { RefCell::new(None) };
}

/// Provides the files that servers of this thread use from now on, or the system's.
pub fn use_disk(disk: Option<Arc<dyn Disk>>) {
    DISK.set(disk);
}

pub(crate) fn disk_of_this_thread() -> Option<Arc<dyn Disk>> {
    DISK.with_borrow(Option::clone)
}

/// One client of a server without listeners. It belongs in a runtime of tokio with one thread and paused time; what the
/// server does ends with that runtime, as at a crash.
pub struct Node {
    server: Arc<Server>,
    in_force: Arc<InForce>,
    client: Place,
}

/// Why a wait had no decision.
#[derive(Clone, Debug)]
pub enum NoDecision {
    /// Too many wait.
    NoRoom,
    /// The server stops.
    Stopping,
    /// The store failed, or the check is wrong in itself.
    Store(StoreError),
}

impl Node {
    /// Starts a server with this configuration.
    pub async fn start(text: &str) -> Result<(Node, Running), Invalid> {
        let config = Config::read("simulated.toml", text)?;
        let running = Running::start(config, Listeners::default(), Timing::default()).await?;
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 4_711));
        let (server, in_force) = (Arc::clone(running.server()), Arc::clone(&running.in_force));
        let client = server.place_for(Face::Http, peer);
        Ok((Node { server, in_force, client }, running))
    }

    /// What decides.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.server.engine
    }

    /// Puts another configuration in force, whole or not at all.
    pub async fn reload(&self, text: String) -> Result<(), Invalid> {
        let in_force = Arc::clone(&self.in_force);
        let read = move || in_force.prepare(&Config::read("simulated.toml", &text)?);
        self.in_force.apply(off_workers(read).await?).await.map(drop)
    }

    /// Waits until a check is admitted. Dropped, it leaves the line.
    pub async fn wait(&self, check: &Check<'_>, within: Duration) -> Result<Reply, NoDecision> {
        let pending = Arc::new(PendingCheck::new(check));
        let waited = self.server.wait(Face::Http, self.client.guest(), &pending, within).await;
        match waited {
            Ok((reply, mut charged)) => {
                charged.keep();
                Ok(reply)
            }
            Err(WaitError::NoRoom) => Err(NoDecision::NoRoom),
            Err(WaitError::Stopping) => Err(NoDecision::Stopping),
            Err(WaitError::Store(error)) => Err(NoDecision::Store(error)),
        }
    }

    /// How many callers are in line for keys of a policy.
    #[must_use]
    pub fn waiting(&self, policy: &str) -> usize {
        self.engine().lines().count(policy)
    }

    /// Writes a snapshot at once.
    pub async fn save(&self) {
        let server = Arc::clone(&self.server);
        off_workers(move || server.engine.save()).await;
    }

    /// How many reservations of a policy are open.
    #[must_use]
    pub fn reservations(&self, policy: &str) -> usize {
        self.engine().reservations().get(policy).copied().unwrap_or_default()
    }
}
