//! One server: a connection, a queue before it, and a breaker.
//!
//! Checks that wait at the same time travel together. While few exchanges are under way a check is
//! sent at once; when there are enough of them, those that arrive meanwhile become the next one. So a
//! lone caller waits for nobody, and many callers share round trips and script calls.

mod batch;
mod dial;
mod reply;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use waterclock::fallback::Breaker;
use waterclock::{Failure, StoreError, Timestamp};

use crate::keyspace::RecordKey;
use crate::script::Script;
use batch::Exchanged;
use dial::Line;
pub(crate) use dial::{Dialer, open};
pub(crate) use reply::{Trouble, of_connection};

/// Exchanges under way before new checks wait to travel together.
const UNDER_WAY: usize = 4;
/// Checks in one exchange: few enough that the next one is written while this one is decided.
const TOGETHER: usize = 32;
/// Checks that may wait; beyond that the next is turned away at once.
const MOST_WAITING: usize = 8_192;
/// How long a dial may take. Longer than a call: a slow handshake helps the calls after it.
const DIAL: Duration = Duration::from_millis(250);
/// Half-open probes: the first soon, none further apart than this.
const FIRST_PROBE: Duration = Duration::from_millis(10);
const LAST_PROBE: Duration = Duration::from_millis(200);

/// What a server is asked.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// A check for the short script, at an instant of a trace or now.
    Short { key: RecordKey, span_us: u64, depth_us: u64, at: Option<TraceTime> },
    /// Any other script call. The keys share a slot.
    Call { script: &'static Script, keys: Vec<RecordKey>, args: Vec<Vec<u8>> },
}

/// An instant of a trace in place of the server's clock, and how long records are then kept.
#[derive(Clone, Debug)]
pub(crate) struct TraceTime {
    pub(crate) now_us: String,
    pub(crate) ttl_ms: &'static str,
}

/// How a question travels.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asking {
    /// To a node that is only about to own the slot.
    pub(crate) asking: bool,
    /// In a call of its own.
    pub(crate) apart: bool,
}

struct Job {
    ask: Ask,
    asking: bool,
    apart: bool,
    reply: oneshot::Sender<Result<Vec<Value>, Trouble>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    under_way: usize,
}

/// A connection and its number among all there were.
type Connected = (u64, Line);

/// A server and how to talk to it.
pub(crate) struct Link {
    dialer: Dialer,
    /// Whether keys of different slots must not meet in one call.
    slotted: bool,
    queue: Mutex<Queue>,
    /// Whose turn it is to hand answers out and to ask the next.
    turn: tokio::sync::Mutex<()>,
    /// Held while dialling: one dial at a time.
    connection: tokio::sync::Mutex<Option<Connected>>,
    is_connected: AtomicBool,
    dials: AtomicU64,
    breaker: Breaker,
    deadline: Duration,
    /// The server's clock minus ours, in microseconds, as last heard.
    ahead_us: AtomicI64,
    born: Instant,
}

impl Link {
    pub(crate) fn new(dialer: Dialer, slotted: bool, deadline: Duration) -> Arc<Self> {
        Arc::new(Self {
            dialer,
            slotted,
            queue: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            connection: tokio::sync::Mutex::default(),
            is_connected: AtomicBool::new(false),
            dials: AtomicU64::new(0),
            breaker: Breaker::new(2 * deadline),
            deadline,
            ahead_us: AtomicI64::new(0),
            born: Instant::now(),
        })
    }

    /// Asks, and waits for the answer until `by`.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        ask: Ask,
        Asking { asking, apart }: Asking,
        by: Instant,
    ) -> Result<Vec<Value>, Trouble> {
        if self.breaker.is_open() {
            return Err(Trouble::failed(Failure::Open, "its breaker is open"));
        }
        let asked = Instant::now();
        let (reply, answer) = oneshot::channel();
        let job = Job { ask, asking, apart, reply };
        let exchange = async {
            match self.alone() {
                Some(_turn) => {
                    let exchanged = self.exchange(vec![job]).await;
                    self.hand_out(exchanged).await;
                }
                None => self.enqueue(job)?,
            }
            answer.await.unwrap_or_else(|_| {
                Err(Trouble::failed(Failure::Unreachable, "the connection was given up"))
            })
        };
        let answer = timeout_at(by, exchange).await.unwrap_or_else(|_| {
            Err(Trouble::failed(Failure::Timeout, "no answer within the deadline"))
        });
        match &answer {
            Err(trouble) if trouble.breaks() => {
                if self.breaker.failed(asked.into_std(), Instant::now().into_std()) {
                    self.watch();
                }
            }
            Err(trouble) if !trouble.was_heard() => {}
            _ => self.breaker.succeeded(),
        }
        answer
    }

    /// About what the server's clock says now; zero before it was ever heard.
    pub(crate) fn expected_now(&self) -> Timestamp {
        match self.ahead_us.load(Ordering::Relaxed) {
            0 => Timestamp::ZERO,
            ahead => {
                let now = self.ticks() + ahead;
                Timestamp::from_micros(u64::try_from(now).unwrap_or(0))
            }
        }
    }

    pub(crate) fn heard_clock(&self, now: Timestamp) {
        let theirs = i64::try_from(now.as_nanos() / 1_000).unwrap_or(0);
        self.ahead_us.store(theirs - self.ticks(), Ordering::Relaxed);
    }

    fn ticks(&self) -> i64 {
        i64::try_from(self.born.elapsed().as_micros()).unwrap_or(0)
    }

    pub(crate) fn is_down(&self) -> bool {
        self.breaker.is_open()
    }

    /// Connects, and tells what an operator should know of the server.
    pub(crate) async fn greet(&self) -> Result<Vec<String>, StoreError> {
        let (line, warnings) = self.dialer.dial().await?;
        let mut slot = self.connection.lock().await;
        self.keep(&mut slot, line);
        Ok(warnings)
    }

    fn keep(&self, slot: &mut Option<Connected>, line: Line) -> u64 {
        let id = self.dials.fetch_add(1, Ordering::Relaxed);
        *slot = Some((id, line));
        self.is_connected.store(true, Ordering::Relaxed);
        id
    }

    /// Gives the present connection up as one gone wrong.
    pub(crate) async fn distrust(self: &Arc<Self>) {
        let now = Instant::now().into_std();
        if self.breaker.failed(now, now) {
            self.watch();
        }
        let mut slot = self.connection.lock().await;
        *slot = None;
        self.is_connected.store(false, Ordering::Relaxed);
    }

    /// A connection for a few commands of one's own, outside the queue.
    pub(crate) async fn connection(&self) -> Result<MultiplexedConnection, StoreError> {
        Ok(self.connected().await?.1.connection)
    }

    async fn connected(&self) -> Result<Connected, StoreError> {
        let mut slot = self.connection.lock().await;
        if let Some(connected) = &*slot
            && connected.1.is_open()
        {
            return Ok(connected.clone());
        }
        let dialled = timeout(DIAL, self.dialer.dial()).await;
        let (line, _) = dialled.unwrap_or_else(|_| {
            Err(StoreError::failed(Failure::Timeout, "no greeting from the server"))
        })?;
        let id = self.keep(&mut slot, line.clone());
        Ok((id, line))
    }

    /// Gives a connection up, unless another one has taken its place.
    async fn disconnect(&self, id: u64) {
        let mut slot = self.connection.lock().await;
        if matches!(&*slot, Some((current, _)) if *current == id) {
            *slot = None;
            self.is_connected.store(false, Ordering::Relaxed);
        }
    }

    /// A turn for a caller whom nobody else is before or beside: it need not wait for a task to run. To
    /// dial takes a task, which goes on when the caller has left.
    fn alone(self: &Arc<Self>) -> Option<Turn<'_>> {
        if !self.is_connected.load(Ordering::Relaxed) {
            return None;
        }
        let mut queue = self.queue.lock();
        if queue.under_way > 0 || !queue.waiting.is_empty() {
            return None;
        }
        queue.under_way += 1;
        Some(Turn(self))
    }

    fn enqueue(self: &Arc<Self>, job: Job) -> Result<(), Trouble> {
        {
            let mut queue = self.queue.lock();
            if queue.waiting.len() >= MOST_WAITING {
                return Err(Trouble::failed(Failure::Overloaded, "too many checks wait already"));
            }
            queue.waiting.push_back(job);
            if queue.under_way >= UNDER_WAY {
                return Ok(());
            }
            queue.under_way += 1;
        }
        tokio::spawn(Arc::clone(self).exchange_all());
        Ok(())
    }

    /// Exchanges whatever waits, until nothing does.
    ///
    /// Answers are handed out by one exchange at a time, and the next only begins when what it led to
    /// has been written: so the server decides on one batch while the client is busy with another.
    /// Without that, exchanges that end together go on in step, and one side always waits.
    async fn exchange_all(self: Arc<Self>) {
        let mut exchanged = Exchanged::default();
        loop {
            let turn = self.turn.lock().await;
            self.hand_out(exchanged).await;
            // Whoever is about to ask, having just been answered, travels along.
            yield_now().await;
            let batch = {
                let mut queue = self.queue.lock();
                if queue.waiting.is_empty() {
                    queue.under_way -= 1;
                    return;
                }
                take_batch(&mut queue.waiting)
            };
            let mut exchange = pin!(self.exchange(batch));
            exchanged = tokio::select! {
                biased;
                exchanged = &mut exchange => exchanged,
                () = yield_now() => {
                    drop(turn);
                    exchange.await
                }
            };
        }
    }

    /// Looks after a server that was given up: probes it until it is well.
    fn watch(self: &Arc<Self>) {
        let watched = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut longest = FIRST_PROBE;
            loop {
                // Full jitter: nodes that lost the same server do not come back in step.
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

    async fn probe(&self) -> bool {
        let Ok((id, mut line)) = self.connected().await else { return false };
        // A script, because that is what it must run: also where it is loading, or a replica by now.
        let mut script = redis::cmd("EVAL");
        script.arg("#!lua\nreturn 1").arg(0);
        let answer =
            timeout(self.deadline, script.query_async::<Value>(&mut line.connection)).await;
        let well = matches!(answer, Ok(Ok(Value::Int(1))));
        if !well {
            self.disconnect(id).await;
        }
        well
    }
}

/// An exchange under way in its caller's own task. However it ends, those who came meanwhile go next.
struct Turn<'a>(&'a Arc<Link>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        if queue.waiting.is_empty() {
            queue.under_way -= 1;
        } else {
            drop(queue);
            // Without a runtime there is nobody left to wait for.
            if let Ok(runtime) = Handle::try_current() {
                runtime.spawn(Arc::clone(self.0).exchange_all());
            }
        }
    }
}

fn take_batch(waiting: &mut VecDeque<Job>) -> Vec<Job> {
    let n = waiting.len().min(TOGETHER);
    // Whoever gave up waiting is not asked for any more.
    waiting.drain(..n).filter(|job| !job.reply.is_closed()).collect()
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("breaker", &self.breaker).finish_non_exhaustive()
    }
}
