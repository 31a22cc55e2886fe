//! Starting and stopping the server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::engine::Engine;
use crate::face;
use crate::listen::{Listener, Listeners};
use crate::observe::{Face, Metrics};
use crate::off_workers::off_workers;
use crate::otlp::{self, Settings};
use crate::reload::{Files, InForce, RestartSettings, keep_reloading};
use crate::server::{Identity, Phase, Server};
use crate::timing::Timing;
use crate::tls::Certificates;
use crate::xds;
use waterclock::Clock;
use waterclock_config::{Config, Invalid, TlsConfig};

const POLL_STORE: Duration = Duration::from_millis(500);
/// The most refused keys are those since the beginning of the last such time.
const ROTATE_REFUSALS: Duration = Duration::from_secs(300);
/// How long a collector may take for what is left when the server stops.
const FLUSH: Duration = Duration::from_millis(500);
/// How often certificates are looked at where there is no file to reload.
const RENEW: Duration = Duration::from_secs(5);
/// Decisions are sampled for the history.
const SAMPLE: Duration = Duration::from_secs(1);

/// Serves a configuration on bound sockets until `shutdown` is ready and every open request is answered.
///
/// The configuration is reloaded when its file changes; see [`Running`].
pub async fn run(
    config: Config,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Invalid> {
    let mut running = Running::start(config, listeners, Timing::default()).await?;
    running.export_by_environment();
    shutdown.await;
    running.stop().await;
    Ok(())
}

/// A running server.
pub struct Running {
    server: Arc<Server>,
    /// What a reload changes.
    #[cfg(feature = "simulation")]
    pub(crate) in_force: Arc<InForce>,
    listening: JoinSet<()>,
    others: JoinSet<()>,
    exports: JoinSet<()>,
    reload: mpsc::Sender<()>,
    timing: Timing,
}

impl Running {
    /// Starts to serve.
    pub async fn start(
        config: Config,
        listeners: Listeners,
        timing: Timing,
    ) -> Result<Running, Invalid> {
        let bound = listeners.bound();
        for (face, address) in &bound {
            config.server.may_listen(&format!("`{}`", face.name()), *address)?;
        }
        let files = Files::of(&config);
        let contents = files.contents_before_use(&config);
        let identity = Identity::new(&config)?;
        let certificates = Certificates::new(&config)?;
        let engine = Engine::new(&config, Arc::new(Metrics::default())).await?;
        let server = Arc::new(Server::new(engine, identity, &config, &timing));
        server.reloads().note(&server, &config.file, &Ok(Vec::new()));
        let router = face::http::router(Arc::clone(&server));
        let routes = face::grpc::routes(&server);
        let mut listening = JoinSet::new();
        let Listeners { http, grpc, resp, side } = listeners;
        for (face, listener) in [(Face::Http, http), (Face::Grpc, grpc), (Face::Resp, resp)] {
            let Some(listener) = listener else { continue };
            let face_listener = Listener {
                face,
                server: Arc::clone(&server),
                router: router.clone(),
                routes: routes.clone(),
                tls: Arc::clone(certificates.of(face)),
                is_side: false,
            };
            listening.spawn(face_listener.run(listener));
        }
        for (port, listener) in side {
            let face_listener = Listener {
                face: Face::Http,
                server: Arc::clone(&server),
                router: face::http::side_router(Arc::clone(&server), &port),
                routes: routes.clone(),
                tls: Arc::default(),
                is_side: true,
            };
            listening.spawn(face_listener.run(listener));
        }
        info!(file = config.file, policies = config.policies.len(), "configuration loaded");
        for (face, address) in &bound {
            info!(protocol = face.name(), %address, "listening");
        }
        let mut others = JoinSet::new();
        let (reload, reloads) = mpsc::channel(1);
        if let (None, Some(tls)) = (&config.path, config.server.tls.clone()) {
            // There is no file to reload, but certificates expire.
            others.spawn(keep_renewing(certificates.clone(), tls, files.clone()));
        }
        let at_start = RestartSettings::of(&config);
        let in_force = InForce { server: Arc::clone(&server), certificates, bound, at_start };
        let in_force = Arc::new(in_force);
        if let Some(path) = config.path.clone() {
            let in_force = Arc::clone(&in_force);
            others.spawn(keep_reloading(in_force, path, (files, contents), reloads));
        }
        if let Some(xds) = config.xds.clone() {
            others.spawn(xds::keep_following(Arc::clone(&server), xds));
        }
        others.spawn(log_store_state(Arc::clone(&server)));
        others.spawn(keep_learning(Arc::clone(&server)));
        others.spawn(rotate_refusals(Arc::clone(&server)));
        others.spawn(keep_history(Arc::clone(&server)));
        if config.store.snapshot.is_some() {
            let every = config.store.snapshot_every.duration();
            others.spawn(keep_snapshots(Arc::clone(&server), every));
        }
        let exports = JoinSet::new();
        Ok(Running {
            server,
            #[cfg(feature = "simulation")]
            in_force,
            listening,
            others,
            exports,
            reload,
            timing,
        })
    }

    /// What all connections share.
    #[must_use]
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Exports spans and metrics to a collector from now on.
    pub fn export(&mut self, settings: Settings) {
        otlp::export(&self.server, settings, &mut self.exports);
    }

    /// The same if the standard variables of OpenTelemetry name a collector. One that is wrong is logged.
    pub fn export_by_environment(&mut self) {
        match Settings::from_env() {
            Ok(settings) => settings.into_iter().for_each(|settings| self.export(settings)),
            // Decisions matter more than their telemetry.
            Err(why) => warn!("{why}; nothing is exported"),
        }
    }

    /// Reads the file again, changed or not.
    pub fn reload(&self) {
        _ = self.reload.try_send(());
    }

    /// Stops gracefully: reports not ready, stops accepting, drains connections, writes the snapshot.
    pub async fn stop(mut self) {
        info!("stopping: /readyz answers 503");
        self.server.enter(Phase::LameDuck);
        sleep(self.timing.lame_duck).await;
        self.server.enter(Phase::Draining);
        while self.listening.join_next().await.is_some() {}
        let connections = self.server.connections();
        if timeout(self.timing.drain, connections.empty()).await.is_err() {
            let left = connections.open();
            warn!("closing {left} connections that did not finish in time");
        }
        self.server.enter(Phase::Ended);
        self.others.shutdown().await;
        // What is left is sent, if the collector takes it soon.
        _ = timeout(FLUSH, async { while self.exports.join_next().await.is_some() {} }).await;
        self.exports.shutdown().await;
        let server = Arc::clone(&self.server);
        off_workers(move || server.engine.save_and_release()).await;
        self.server.engine.close().await;
        info!("stopped");
    }
}

/// Reads the certificates again when their files change.
async fn keep_renewing(certificates: Certificates, tls: TlsConfig, files: Files) {
    let (certificates, tls, files) = (Arc::new(certificates), Arc::new(tls), Arc::new(files));
    let mut known = Vec::new();
    loop {
        let all = Arc::clone(&files);
        let contents = off_workers(move || all.contents()).await;
        if contents != known {
            let (certificates, tls) = (Arc::clone(&certificates), Arc::clone(&tls));
            match off_workers(move || certificates.read_again(&tls)).await {
                Ok(()) => known = contents,
                Err(why) => warn!("new certificates cannot be used, the old ones stay: {why}"),
            }
        }
        sleep(RENEW).await;
    }
}

/// Logs when the store becomes unreachable and when it is back, and when it is shared by more servers than it should.
async fn log_store_state(server: Arc<Server>) {
    let mut were_too_many = None;
    loop {
        sleep(POLL_STORE).await;
        let too_many = server.engine.store_nodes().too_many();
        if too_many != were_too_many {
            log_too_many(too_many);
            were_too_many = too_many;
        }
        let is = server.engine.is_degraded();
        if server.outage().note(is, server.engine.metrics().clock().now()) {
            match is {
                true => warn!("store unreachable; applying each policy's on_store_error"),
                false => info!("store reachable again"),
            }
        }
    }
}

fn log_too_many(nodes: Option<u64>) {
    match nodes {
        Some(nodes) => warn!(
            "{nodes} servers share the store, more than `nodes` in [store] says; one that starts while the store is \
             unreachable would serve too large a share of each limit; set `nodes = {nodes}`"
        ),
        None => info!("no more servers share the store than `nodes` says"),
    }
}

async fn keep_learning(server: Arc<Server>) {
    server.engine.keep_learning().await;
}

async fn rotate_refusals(server: Arc<Server>) {
    loop {
        sleep(ROTATE_REFUSALS).await;
        server.engine.refused().rotate(server.engine.metrics().clock().now());
    }
}

/// Samples the counters shortly after each second is over.
async fn keep_history(server: Arc<Server>) {
    loop {
        let uptime = server.uptime();
        sleep(SAMPLE - Duration::from_nanos(uptime.subsec_nanos().into())).await;
        let server = Arc::clone(&server);
        // There may be thousands of policies.
        off_workers(move || {
            let metrics = server.engine.metrics();
            metrics.history().sample(metrics, server.uptime().as_secs());
        })
        .await;
    }
}

async fn keep_snapshots(server: Arc<Server>, every: Duration) {
    loop {
        sleep(every).await;
        let server = Arc::clone(&server);
        off_workers(move || server.engine.save()).await;
    }
}
