//! One server: a connection, a queue before it, and a breaker.
//!
//! Requests that wait at the same time are sent together. While few exchanges are running a request is sent at once;
//! when there are enough of them, those that arrive meanwhile become the next one. So a lone caller waits for no other,
//! and many callers share round trips and script calls.

mod alone;
mod capability;
mod dial;
mod error;
mod exchange;
mod queue;
mod sentinels;
#[cfg(feature = "simulation")]
pub(crate) mod simulated;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use waterclock::fallback::{Breaker, Permit};
use waterclock::{Clock, Failure, MonotonicClock, StoreError, Timestamp};

use crate::keyspace::{RecordKey, Tag};
use crate::script::{Algorithms, Kind, Script};
use dial::Connection;
pub(crate) use dial::{Dialer, open};
pub(crate) use error::{CallError, connection_error};
use queue::{Pending, Queue};

pub(crate) use sentinels::Sentinels;

/// The deadline for connecting. Longer than that of a call: a slow handshake helps later calls.
const DIAL: Duration = Duration::from_millis(250);
/// Half-open probes: the first soon, none further apart than this.
const FIRST_PROBE: Duration = Duration::from_millis(10);
const LAST_PROBE: Duration = Duration::from_millis(200);

/// What the links of a store have in common.
#[derive(Clone, Debug)]
pub(crate) struct LinkSettings {
    pub(crate) deadline: Duration,
    /// What every key starts with.
    pub(crate) prefix: String,
    /// Whether keys of different slots must not meet in one call.
    pub(crate) slotted: bool,
    /// How many replicas must have acknowledged a call before it is answered.
    pub(crate) replicas: u64,
}

impl LinkSettings {
    /// How long replicas may take. A call is sent twice where the server does not have the script; after that there
    /// must be time left to tell the caller why there is no answer.
    fn replicas_ms(&self) -> u128 {
        (self.deadline.as_millis() / 3).max(1)
    }

    /// The command that waits for replicas.
    fn wait(&self) -> Cmd {
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.replicas).arg(self.replicas_ms().to_string());
        wait
    }
}

/// A request to a server.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// A check for the short script, at an instant of a trace or now.
    Short { key: RecordKey, span_us: u64, depth_us: u64, tag: Tag, at: Option<TraceTime> },
    /// A check for a script about policies. The keys share a slot.
    Check {
        kind: Kind,
        algorithms: Algorithms,
        keys: Vec<RecordKey>,
        args: Vec<Vec<u8>>,
        at: Option<TraceTime>,
    },
    /// Any other script call. The keys share a slot.
    Script { script: &'static Script, keys: Vec<RecordKey>, args: Vec<Vec<u8>> },
}

/// An instant of a trace in place of the server's clock, and how long records are then kept.
#[derive(Clone, Debug)]
pub(crate) struct TraceTime {
    pub(crate) now_us: String,
    pub(crate) ttl_ms: &'static str,
}

impl TraceTime {
    /// What `now.lua` reads: nothing for the server's own clock.
    pub(crate) fn args(trace: Option<&Self>) -> [&str; 2] {
        trace.map_or(["", ""], |trace| [&trace.now_us, trace.ttl_ms])
    }
}

/// How a request is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivery {
    /// After `ASKING`, to a node that does not own the slot yet.
    pub(crate) asking: bool,
    /// In a script call of its own.
    pub(crate) alone: bool,
}

/// How long a caller waits for a reply.
#[derive(Clone, Copy, Debug)]
struct Patience {
    by: Instant,
    /// Whether that is before the server's own deadline is over. Then having no reply by then says nothing about the
    /// server: what became of the request is reported after the caller has left.
    is_short: bool,
}

impl Patience {
    /// The time is over, and the request was sent.
    fn no_answer(self) -> CallError {
        match self.is_short {
            true => CallError::GaveUp { is_sent: true },
            false => CallError::failed(Failure::Timeout, "no answer within the deadline"),
        }
    }
}

/// A connection and its number among all there were.
type Numbered = (u64, Connection);

/// A server and how to talk to it.
pub(crate) struct Link {
    dialer: Dialer,
    settings: LinkSettings,
    queue: Mutex<Queue>,
    /// Held while replies are delivered and the next requests are taken.
    turn: tokio::sync::Mutex<()>,
    connection: Mutex<Option<Numbered>>,
    /// Held while dialling: one dial at a time.
    dialling: tokio::sync::Mutex<()>,
    dials: AtomicU64,
    breaker: Breaker,
    /// Follows the primary, where sentinels name it.
    follower: Mutex<Option<AbortHandle>>,
    clock: MonotonicClock,
    /// The server's clock minus ours, in microseconds, as last seen.
    ahead_us: AtomicI64,
    born: Instant,
}

impl Link {
    pub(crate) fn new(dialer: Dialer, settings: LinkSettings) -> Arc<Self> {
        Arc::new(Self {
            dialer,
            queue: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            connection: Mutex::default(),
            dialling: tokio::sync::Mutex::default(),
            dials: AtomicU64::new(0),
            breaker: Breaker::new(2 * settings.deadline),
            settings,
            follower: Mutex::default(),
            clock: MonotonicClock::default(),
            ahead_us: AtomicI64::new(0),
            born: Instant::now(),
        })
    }

    /// Sends a request, and waits for the reply until `by`.
    pub(crate) async fn send(
        self: &Arc<Self>,
        request: &Request,
        delivery: Delivery,
        by: Instant,
    ) -> Result<Vec<Value>, CallError> {
        // Whatever took so long, it was not this server.
        let now = Instant::now();
        if by <= now {
            return Err(CallError::GaveUp { is_sent: false });
        }
        let by = Patience { by, is_short: by < now + self.settings.deadline * 7 / 8 };
        let Some(permit) = self.breaker.enter_closed(self.clock.now()) else {
            return Err(CallError::failed(
                Failure::Open,
                "the circuit breaker of this server is open",
            ));
        };
        let reply = match self.send_alone(request, delivery, by).await {
            Some(reply) => reply,
            None => self.send_together(request.clone(), delivery, by).await,
        };
        let is_optional = |error: &&CallError| request.is_optional() && error.is_forbidden();
        self.report(permit, reply.as_ref().err().filter(|error| !is_optional(error)));
        reply
    }

    /// Sends a request with those that wait at the same time.
    async fn send_together(
        self: &Arc<Self>,
        request: Request,
        delivery: Delivery,
        patience: Patience,
    ) -> Result<Vec<Value>, CallError> {
        let (reply, replied) = oneshot::channel();
        let hurried = patience.is_short.then(|| self.clock.now());
        self.enqueue(Pending { request, delivery, reply, hurried })?;
        match timeout_at(patience.by, replied).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => {
                let lost = StoreError::failed(Failure::Unreachable, "the connection was dropped");
                Err(CallError::Store(lost.after_sending()))
            }
            Err(_) => Err(patience.no_answer()),
        }
    }

    /// Tells the breaker how a call went whose caller had left before the server's deadline was over.
    fn report_late(self: &Arc<Self>, asked: Timestamp, error: Option<&CallError>) {
        if let Some(permit) = self.breaker.enter_closed(asked) {
            self.report(permit, error);
        }
    }

    /// Tells the breaker how a call went.
    fn report(self: &Arc<Self>, permit: Permit<'_>, error: Option<&CallError>) {
        match error {
            Some(error) if error.trips_breaker() => {
                if permit.failed(self.clock.now()) {
                    self.watch();
                }
            }
            Some(CallError::GaveUp { .. }) => {
                if permit.gave_up(self.clock.now()) {
                    self.watch();
                }
            }
            // This did not come from the server.
            Some(CallError::Store(error)) if error.failure() == Some(Failure::Overloaded) => {}
            _ => permit.succeeded(),
        }
    }

    /// About what the server's clock says now; zero before it was ever seen.
    pub(crate) fn expected_now(&self) -> Timestamp {
        match self.ahead_us.load(Ordering::Relaxed) {
            0 => Timestamp::ZERO,
            ahead => {
                let now = self.ticks() + ahead;
                Timestamp::from_micros(u64::try_from(now).unwrap_or(0))
            }
        }
    }

    pub(crate) fn note_clock(&self, now: Timestamp) {
        let theirs = i64::try_from(now.as_nanos() / 1_000).unwrap_or(0);
        self.ahead_us.store(theirs - self.ticks(), Ordering::Relaxed);
    }

    fn ticks(&self) -> i64 {
        i64::try_from(self.born.elapsed().as_micros()).unwrap_or(0)
    }

    pub(crate) fn is_down(&self) -> bool {
        self.breaker.is_open()
    }

    /// Reconnects, and returns warnings for the operator.
    pub(crate) async fn connect(self: &Arc<Self>) -> Result<Vec<String>, StoreError> {
        self.follow();
        let (connection, warnings) = self.dialer.dial(&self.settings).await?;
        self.keep(connection);
        Ok(warnings)
    }

    fn keep(&self, connection: Connection) -> Numbered {
        let numbered = (self.dials.fetch_add(1, Ordering::Relaxed), connection);
        *self.connection.lock() = Some(numbered.clone());
        numbered
    }

    /// Closes the current connection, which sent an unexpected reply.
    pub(crate) fn distrust(self: &Arc<Self>) {
        let now = self.clock.now();
        if self.breaker.enter_closed(now).is_some_and(|permit| permit.failed(now)) {
            self.watch();
        }
        *self.connection.lock() = None;
    }

    /// A connection for commands outside the queue.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<MultiplexedConnection, StoreError> {
        Ok(self.connected().await?.1.redis)
    }

    async fn connected(self: &Arc<Self>) -> Result<Numbered, StoreError> {
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        let _dialling = self.dialling.lock().await;
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        self.follow();
        let dialled = timeout(DIAL, self.dialer.dial(&self.settings)).await;
        let (connection, _) = dialled.unwrap_or_else(|_| {
            Err(StoreError::failed(Failure::Timeout, "connecting timed out"))
        })?;
        Ok(self.keep(connection))
    }

    fn open_connection(&self) -> Option<Numbered> {
        self.connection.lock().as_ref().filter(|(_, connection)| connection.is_open()).cloned()
    }

    /// Closes a connection, unless another one has replaced it.
    fn disconnect(&self, id: u64) {
        self.connection.lock().take_if(|(current, _)| *current == id);
    }

    /// Probes a server whose breaker opened until it runs scripts again.
    fn watch(self: &Arc<Self>) {
        let watched = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut longest = FIRST_PROBE;
            loop {
                // Full jitter: nodes that lost the same server do not probe at the same time.
                sleep(longest.mul_f64(fastrand::f64())).await;
                longest = (longest * 2).min(LAST_PROBE);
                let Some(link) = watched.upgrade() else { return };
                if link.probe().await {
                    link.breaker.close();
                    return;
                }
            }
        });
    }

    async fn probe(self: &Arc<Self>) -> bool {
        let Ok((id, mut connection)) = self.connected().await else { return false };
        let answer = timeout(self.settings.deadline, self.try_script(&mut connection.redis)).await;
        let is_well = match answer {
            Ok(Ok((Value::Int(1), replicas))) => replicas >= self.settings.replicas,
            _ => false,
        };
        if !is_well {
            self.disconnect(id);
        }
        is_well
    }

    /// A script fails if the server is loading or has become a replica. With its reply comes how many replicas
    /// acknowledged, if they are asked.
    async fn try_script(&self, redis: &mut MultiplexedConnection) -> RedisResult<(Value, u64)> {
        let mut script = redis::pipe();
        script.cmd("EVAL").arg("#!lua\nreturn 1").arg(0);
        if self.settings.replicas == 0 {
            let (reply,) = script.query_async(redis).await?;
            return Ok((reply, 0));
        }
        script.add_command(self.settings.wait());
        script.query_async(redis).await
    }

    /// Starts to follow the primary, unless that is happening already.
    fn follow(self: &Arc<Self>) {
        let Dialer::Sentinels(sentinels) = &self.dialer else { return };
        let mut follower = self.follower.lock();
        // It ends before its time with the runtime it was started in.
        if follower.as_ref().is_none_or(AbortHandle::is_finished) {
            let follow = sentinels::follow(Arc::downgrade(self), Arc::clone(sentinels));
            *follower = Some(tokio::spawn(follow).abort_handle());
        }
    }

    /// Closes the connection if it is not to this primary, or if that has become a replica.
    async fn keep_to(&self, primary: &str) {
        let Some((id, mut connection)) = self.connection.lock().clone() else { return };
        let is_other = connection.primary.as_deref() != Some(primary);
        if is_other || self.is_replica(&mut connection.redis).await {
            self.disconnect(id);
        }
    }

    /// Whether the server says that it is a replica; not whether it is silent.
    async fn is_replica(&self, redis: &mut MultiplexedConnection) -> bool {
        let answer = timeout(self.settings.deadline, self.try_script(redis)).await;
        matches!(answer, Ok(Err(error)) if matches!(error.code(), Some("READONLY" | "MASTERDOWN")))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.follower.get_mut().iter().for_each(AbortHandle::abort);
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("breaker", &self.breaker).finish_non_exhaustive()
    }
}
