//! The server from its start to its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use crate::config::{Config, Invalid};
use crate::engine::Engine;
use crate::face;
use crate::listen::{Door, Listeners, MOST_CONNECTIONS};
use crate::observe::{Face, Metrics};
use crate::pace::Patience;
use crate::reload::keep_reloading;
use crate::server::{Identity, Phase, Server};
use crate::tls;

/// What a server waits for, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Not ready, but still serving: time for balancers to notice.
    pub lame_duck: Duration,
    /// For requests under way when the server drains.
    pub drain: Duration,
    /// With peers.
    pub patience: Patience,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            lame_duck: Duration::from_secs(1),
            drain: Duration::from_secs(10),
            patience: Patience::default(),
        }
    }
}

/// Serves a configuration on bound sockets until `shutdown` is ready, and then until every request
/// under way is answered.
///
/// The file of the configuration is read again when it changes; [`Running`] says more.
pub async fn run(
    config: Config,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Invalid> {
    let running = Running::start(config, listeners, Timing::default()).await?;
    shutdown.await;
    running.stop().await;
    Ok(())
}

/// A server at work.
pub struct Running {
    server: Arc<Server>,
    doors: JoinSet<()>,
    others: JoinSet<()>,
    connections: Arc<Semaphore>,
    asked: mpsc::Sender<()>,
    timing: Timing,
    snapshot: Option<PathBuf>,
}

impl Running {
    /// Starts to serve.
    pub async fn start(
        config: Config,
        listeners: Listeners,
        timing: Timing,
    ) -> Result<Running, Invalid> {
        config.serveable()?;
        let identity = Identity::new(&config)?;
        let https = Tls::new(&config, &["h2", "http/1.1"])?;
        let plain = Tls::new(&config, &[])?;
        let engine = Engine::new(&config, Arc::new(Metrics::default())).await?;
        let server = Arc::new(Server::new(engine, identity, timing.patience));
        server.reloads().note(&server, &config.file, &Ok(()));
        let snapshot = config.store.snapshot.clone();
        let connections = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let router = face::http::router(Arc::clone(&server));
        let routes = face::grpc::routes(&server);
        let mut doors = JoinSet::new();
        let Listeners { http, grpc, resp } = listeners;
        for (face, listener) in [(Face::Http, http), (Face::Grpc, grpc), (Face::Resp, resp)] {
            let Some(listener) = listener else { continue };
            let tls = if face == Face::Resp { &plain } else { &https };
            let door = Door {
                face,
                server: Arc::clone(&server),
                router: router.clone(),
                routes: routes.clone(),
                tls: Arc::clone(&tls.acceptor),
                connections: Arc::clone(&connections),
            };
            doors.spawn(door.keep_open(listener));
        }
        let mut others = JoinSet::new();
        let (asked, told) = mpsc::channel(1);
        if let Some(path) = config.path.clone() {
            let server = Arc::clone(&server);
            let after = move |config: &Config| {
                https.renew(config);
                plain.renew(config);
            };
            others.spawn(keep_reloading(server, path, told, after));
        }
        if let Some(path) = snapshot.clone() {
            let every = config.store.snapshot_every.duration();
            others.spawn(keep_snapshots(Arc::clone(&server), path, every));
        }
        Ok(Running { server, doors, others, connections, asked, timing, snapshot })
    }

    /// What the connections share.
    #[must_use]
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Reads the file again, changed or not.
    pub fn reload(&self) {
        _ = self.asked.try_send(());
    }

    /// Ends in good order: not ready, then no new connections, then no connections; then what there
    /// is to remember is written down.
    pub async fn stop(mut self) {
        info!("stopping: not ready from now on");
        self.server.enter(Phase::LameDuck);
        sleep(self.timing.lame_duck).await;
        self.server.enter(Phase::Draining);
        while self.doors.join_next().await.is_some() {}
        let all = u32::try_from(MOST_CONNECTIONS).unwrap_or(u32::MAX);
        if timeout(self.timing.drain, self.connections.acquire_many(all)).await.is_err() {
            let left = MOST_CONNECTIONS - self.connections.available_permits();
            warn!("{left} connections did not end in time and are closed");
        }
        self.others.shutdown().await;
        if let Some(path) = &self.snapshot {
            self.server.engine.place().save(path);
        }
        self.server.engine.place().close().await;
        info!("stopped");
    }
}

async fn keep_snapshots(server: Arc<Server>, path: PathBuf, every: Duration) {
    loop {
        sleep(every).await;
        let (server, path) = (Arc::clone(&server), path.clone());
        _ = tokio::task::spawn_blocking(move || server.engine.place().save(&path)).await;
    }
}

/// The certificates in force.
struct Tls {
    acceptor: Arc<ArcSwapOption<TlsAcceptor>>,
    protocols: &'static [&'static str],
}

impl Tls {
    fn new(config: &Config, protocols: &'static [&'static str]) -> Result<Tls, Invalid> {
        let acceptor =
            config.server.tls.as_ref().map(|spec| tls::acceptor(spec, protocols)).transpose()?;
        Ok(Tls { acceptor: Arc::new(ArcSwapOption::new(acceptor.map(Arc::new))), protocols })
    }

    /// New certificates for new connections. Turning TLS on or off takes a restart.
    fn renew(&self, config: &Config) {
        let Some(spec) = &config.server.tls else { return };
        match tls::acceptor(spec, self.protocols) {
            Ok(acceptor) if self.acceptor.load().is_some() => {
                self.acceptor.store(Some(Arc::new(acceptor)));
            }
            Ok(_) => warn!("TLS is turned on by a restart only"),
            Err(invalid) => warn!("the old certificate stays: {invalid}"),
        }
    }
}
