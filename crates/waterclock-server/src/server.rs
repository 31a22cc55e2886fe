//! What all connections of all faces share.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use waterclock::{Clock, Timestamp};

use crate::access::{Attempt, Guesses, Role, bearer_of};
use crate::buffers::Buffers;
use crate::connections::{Connections, Guest, Place};
use crate::descriptors::connections_within_descriptors;
use crate::engine::Engine;
use crate::face::grpc::Quotas;
pub(crate) use crate::identity::Identity;
use crate::lasting::{Kind, Lasting};
use crate::observe::{Face, Outage, Ticks};
use crate::off_workers::off_workers;
use crate::reference::{Domain, hits_text, merged};
use crate::reload::Reloads;
use crate::requests::Requests;
use crate::timing::{Patience, Timing};
use crate::waits::Waits;
use crate::xds::XdsStatus;
use waterclock_config::{Config, Invalid, ReferenceConfig};

/// The phases of stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Phase {
    /// Ready.
    Serving,
    /// Not ready, so that load balancers send no new clients; still serving.
    LameDuck,
    /// Connections close after the request they are at.
    Draining,
    /// Open connections are closed.
    Ended,
}

impl Phase {
    /// As the live feed spells it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Serving => "serving",
            Phase::LameDuck => "lame-duck",
            Phase::Draining => "draining",
            Phase::Ended => "ended",
        }
    }
}

/// What all connections of all faces share.
pub struct Server {
    /// Policies, overrides, store and counters.
    pub engine: Engine,
    identity: ArcSwap<Identity>,
    guesses: Guesses,
    connections: Arc<Connections>,
    buffers: Arc<Buffers>,
    authenticate_within: Duration,
    requests: Requests,
    live: Arc<Semaphore>,
    watches: Lasting,
    waits: Waits,
    quotas: Quotas,
    ticks: Ticks,
    outage: Outage,
    phase: watch::Sender<Phase>,
    /// The same, for those that must not wait for a lock to know.
    is_draining: AtomicBool,
    reloads: Reloads,
    xds: XdsStatus,
    reference: ReferenceConfig,
    patience: Patience,
    quiet: Duration,
    started: Timestamp,
    /// Held while metrics are written.
    scraping: Mutex<()>,
    /// Held while metrics, live events and lists of policies are made.
    reading: Arc<tokio::sync::Mutex<()>>,
    scrapes: Arc<tokio::sync::Mutex<()>>,
}

impl Server {
    pub(crate) fn new(engine: Engine, identity: Identity, all: &Config, timing: &Timing) -> Server {
        let config = &all.server;
        Server {
            connections: Arc::new(Connections::new(
                connections_within_descriptors(config.max_connections),
                config.max_unauthenticated_per_address,
            )),
            buffers: Arc::new(Buffers::new(config.max_receive_bytes)),
            authenticate_within: config.authenticate_within.duration(),
            requests: Requests::new(timing.room.requests),
            started: engine.metrics().clock().now(),
            engine,
            identity: ArcSwap::from_pointee(identity),
            guesses: Guesses::default(),
            live: Arc::new(Semaphore::new(timing.room.live)),
            watches: Lasting::new(Kind::Watch, timing.room.watches, usize::MAX),
            waits: Waits::new(timing.room.waits),
            quotas: Quotas::default(),
            ticks: Ticks::new(timing.live_every),
            outage: Outage::default(),
            phase: watch::Sender::new(Phase::Serving),
            is_draining: AtomicBool::new(false),
            reloads: Reloads::default(),
            xds: XdsStatus::new(all.xds.as_ref()),
            reference: all.reference.clone(),
            patience: timing.patience,
            quiet: timing.quiet,
            scraping: Mutex::default(),
            reading: Arc::default(),
            scrapes: Arc::default(),
        }
    }

    /// Whether a token has the role. Failures are counted, unknown tokens by the address they came from.
    pub fn attempt(
        &self,
        face: Face,
        token: Option<&str>,
        role: Role,
        from: impl FnOnce() -> IpAddr,
    ) -> Attempt {
        let attempt = self.identity.load().access.attempt(token, role);
        if attempt == Attempt::Granted {
            return attempt;
        }
        let metrics = self.engine.metrics();
        metrics.count_auth_failure(face);
        // A request without a token is no guess.
        if attempt == Attempt::Unknown && token.is_some() && self.guesses.count(face, from()) {
            metrics.count_auth_delay(face);
            return Attempt::Guessed;
        }
        attempt
    }

    /// Checks the bearer token of a request before its body is read. A client with a known token is known from now on.
    /// Otherwise the body is dropped at once, and the answer to a guess is delayed.
    pub(crate) async fn authorize<B>(
        &self,
        (face, role): (Face, Role),
        guest: &Guest,
        headers: &HeaderMap,
        body: B,
    ) -> Result<B, Attempt> {
        let client = || self.client(guest.peer.ip(), headers).0;
        let attempt = self.attempt(face, bearer_of(headers), role, client);
        match attempt {
            Attempt::Granted => {
                guest.confirm();
                return Ok(body);
            }
            Attempt::Forbidden => guest.confirm(),
            Attempt::Unknown => {}
            Attempt::Guessed => {
                drop(body);
                self.delay_guess().await;
            }
        }
        Err(attempt)
    }

    /// Waits before [`Attempt::Guessed`] is answered.
    pub(crate) async fn delay_guess(&self) {
        self.guesses.delay().await;
    }

    /// Whether checks and reads need no token.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.identity.load().access.is_open()
    }

    /// Whether there are tokens, be it only the administrator's of an open server.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        self.identity.load().access.has_tokens()
    }

    /// Whether a token still has the role, without counting a guess.
    pub(crate) fn revalidate(&self, token: Option<&str>, role: Role) -> Attempt {
        self.identity.load().access.attempt(token, role)
    }

    /// A place for one more request. `None` (counted) if the server is overloaded.
    pub fn admit(&self, face: Face) -> Option<OwnedSemaphorePermit> {
        self.counted(face, self.requests.admit(face))
    }

    /// The same, for an administrator: there are places that no one else takes.
    pub(crate) fn admit_administrator(&self, face: Face) -> Option<OwnedSemaphorePermit> {
        self.counted(face, self.requests.admit_administrator(face))
    }

    fn counted<T>(&self, face: Face, place: Option<T>) -> Option<T> {
        if place.is_none() {
            self.engine.metrics().count_shed(face);
        }
        place
    }

    /// A place for a connection that was accepted.
    pub(crate) fn place_for(&self, face: Face, peer: SocketAddr) -> Place {
        let is_proxy = self.identity.load().proxies.contains(peer.ip());
        self.connections.enter(face, peer, is_proxy)
    }

    /// The connections of all faces.
    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// How long a connection may take to send a request that is let in.
    pub(crate) fn authenticate_within(&self) -> Duration {
        self.authenticate_within
    }

    /// The budget of receive buffers.
    pub(crate) fn buffers(&self) -> &Arc<Buffers> {
        &self.buffers
    }

    /// A place for one more live feed.
    pub(crate) fn admit_to_live(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.live).try_acquire_owned().ok()
    }

    /// The places for health watches of gRPC.
    pub(crate) fn watches(&self) -> &Lasting {
        &self.watches
    }

    /// The bounds of callers in line.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// The quota that proxies hold.
    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// The clock of the live feeds.
    pub(crate) fn ticks(&self) -> &Ticks {
        &self.ticks
    }

    /// Since when the store is unreachable.
    pub(crate) fn outage(&self) -> &Outage {
        &self.outage
    }

    /// The roles that a token has, without counting a guess.
    pub(crate) fn roles_of(&self, token: Option<&str>) -> Vec<Role> {
        let has = |role: &Role| self.revalidate(token, *role) == Attempt::Granted;
        [Role::Check, Role::Read, Role::Admin].into_iter().filter(has).collect()
    }

    /// When it started.
    pub(crate) fn started(&self) -> Timestamp {
        self.started
    }

    /// The client's address, and whether the peer is a trusted proxy.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> (IpAddr, bool) {
        let identity = self.identity.load();
        let is_trusted = identity.proxies.contains(peer.to_canonical());
        (identity.clients.address(peer, headers), is_trusted)
    }

    /// How long it has been running.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.uptime_at(self.engine.metrics().clock().now())
    }

    pub(crate) fn uptime_at(&self, now: Timestamp) -> Duration {
        now.since(self.started)
    }

    /// The phase; watch it to close a connection gracefully.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Timeouts of peers.
    #[must_use]
    pub fn patience(&self) -> Patience {
        self.patience
    }

    /// How long a connection must be quiet before draining closes it.
    pub(crate) fn quiet(&self) -> Duration {
        self.quiet
    }

    /// The outcome of reloads.
    #[must_use]
    pub fn reloads(&self) -> &Reloads {
        &self.reloads
    }

    /// The control plane that pushes limits, as far as there is one.
    #[must_use]
    pub fn xds(&self) -> &XdsStatus {
        &self.xds
    }

    /// Puts a configuration of Envoy's reference service in force, whole or not at all: for one that comes from files.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub async fn push(&self, domains: Vec<Domain>, merges: bool) -> Result<(), Invalid> {
        self.engine.push(merged(domains, merges)?).await?;
        self.reloads.note_push(self);
        Ok(())
    }

    /// How answers differ from ours.
    pub(crate) fn reference(&self) -> &ReferenceConfig {
        &self.reference
    }

    /// The text of `/metrics`.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        let _one_at_a_time = self.scraping.lock();
        let metrics = self.engine.metrics();
        self.engine.update_gauges();
        metrics.set_receive_bytes(self.buffers.used());
        let mut text = metrics.text();
        metrics.clear_policies();
        let more =
            self.xds.metrics_text() + &hits_text(self.engine.plan().pushed().hits().into_iter());
        if let Some(end) = text.rfind("# EOF") {
            text.insert_str(end, &more);
        }
        text
    }

    /// Runs what takes long if there are many policies, away from the threads that answer. One at a time, even where the
    /// caller goes away: the work goes on, and keeps its turn.
    pub(crate) async fn read_at_length<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Server) -> T + Send + 'static,
    ) -> T {
        self.read_in_turn(&self.reading, read).await
    }

    /// The text of `/metrics`, which waits for no other reader.
    pub(crate) async fn scrape(self: &Arc<Self>) -> String {
        self.read_in_turn(&self.scrapes, Server::metrics_text).await
    }

    async fn read_in_turn<T: Send + 'static>(
        self: &Arc<Self>,
        turns: &Arc<tokio::sync::Mutex<()>>,
        read: impl FnOnce(&Server) -> T + Send + 'static,
    ) -> T {
        let turn = Arc::clone(turns).lock_owned().await;
        let server = Arc::clone(self);
        let work = move || {
            let done = read(&server);
            drop(turn);
            done
        };
        off_workers(work).await
    }

    /// Whether connections are to close.
    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Whether clients are to go elsewhere.
    pub(crate) fn is_leaving(&self) -> bool {
        *self.phase.borrow() >= Phase::LameDuck
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.is_draining.store(phase >= Phase::Draining, Ordering::Relaxed);
        self.phase.send_replace(phase);
    }

    pub(crate) fn set_identity(&self, identity: Identity) {
        self.identity.store(Arc::new(identity));
    }
}
