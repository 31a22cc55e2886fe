//! Waiting until a check is admitted: `/v1/wait` and `RL.WAIT`.
//!
//! Callers line up for their key on this server. Only the first in line asks the store, and sleeps for as long as the store
//! says. A caller that cannot pass in time is refused as soon as that is known, and one whose client is gone leaves the
//! line.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use waterclock::StoreError;

use crate::connections::Guest;
use crate::engine::{Attempt, LineBounds, LineFull, PendingCheck, Place, Reply};
use crate::lasting::{Kind, Lasting, LastingPlace};
use crate::observe::Face;
use crate::server::{Phase, Server};

/// The longest wait.
pub(crate) const MAX_WITHIN: Duration = Duration::from_secs(60);
/// The least time between two attempts.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// One line has at most one in so many places, the lines of one policy half of them, and one connection so few.
const KEY_PART: usize = 8;
const POLICY_PART: usize = 2;
const CONNECTION_PART: usize = 128;

/// The bounds of all lines.
pub(crate) struct Waits {
    places: Lasting,
    lines: LineBounds,
}

impl Waits {
    pub(crate) fn new(at_once: usize) -> Waits {
        let part = |of: usize| (at_once / of).max(1);
        Waits {
            places: Lasting::new(Kind::Wait, at_once, part(CONNECTION_PART)),
            lines: LineBounds { of_key: part(KEY_PART), of_policy: part(POLICY_PART) },
        }
    }
}

/// Why a wait ended without a decision.
#[derive(Debug)]
pub(crate) enum WaitError {
    /// Too many wait: in all, of this policy, of this address or on this connection.
    NoRoom,
    /// The server drains.
    Stopping,
    /// The store failed, or the check is wrong in itself.
    Store(StoreError),
}

impl From<StoreError> for WaitError {
    fn from(error: StoreError) -> WaitError {
        WaitError::Store(error)
    }
}

impl Server {
    /// Waits for this long until a check is admitted. A reply that refuses comes as soon as it is known that it takes
    /// longer. Dropped, it leaves the line and charges nothing; so does what was charged, until it is kept.
    pub(crate) async fn wait(
        self: &Arc<Self>,
        face: Face,
        guest: &Arc<Guest>,
        pending: &Arc<PendingCheck>,
        within: Duration,
    ) -> Result<(Reply, Charged), WaitError> {
        let Some(room) = self.waits().places.begin(guest) else {
            self.engine.metrics().count_shed(face);
            return Err(WaitError::NoRoom);
        };
        let waiter = Waiter {
            server: Arc::clone(self),
            face,
            pending: Arc::clone(pending),
            until: Instant::now() + within.min(MAX_WITHIN),
            _room: room,
        };
        let (answer, answered) = oneshot::channel();
        // A task of its own, because the store may be charging it at the moment when the client goes away.
        tokio::spawn(waiter.run(answer));
        answered.await.unwrap_or(Err(WaitError::Stopping))
    }
}

type Answer = oneshot::Sender<Result<(Reply, Charged), WaitError>>;

/// What a wait has charged, until its answer is on the way to the client. Dropped before that, it is given back.
#[must_use]
pub(crate) struct Charged(Option<(Arc<Server>, Arc<PendingCheck>)>);

impl Charged {
    /// The client has its answer, as far as the server can tell.
    pub(crate) fn keep(&mut self) {
        self.0 = None;
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        if let (Some((server, pending)), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move { server.engine.give_back(&pending).await });
        }
    }
}

/// One caller in line, or about to be.
struct Waiter {
    server: Arc<Server>,
    face: Face,
    pending: Arc<PendingCheck>,
    until: Instant,
    _room: LastingPlace,
}

impl Waiter {
    async fn run(self, mut answer: Answer) {
        // Kept to the end, so that units are given back before the next caller has its turn.
        let mut place = None;
        let ended = match self.pass(&mut place, &mut answer).await {
            Ok(None) => return,
            Ok(Some(attempt)) => Ok(attempt),
            Err(error) => Err(error),
        };
        let engine = &self.server.engine;
        let is_charged = ended.as_ref().is_ok_and(|attempt| attempt.is_charged);
        if !answer.is_closed() {
            match &ended {
                Ok(attempt) => engine.count_waited(self.face, &self.pending, Some(&attempt.reply)),
                Err(WaitError::Store(_)) => engine.count_waited(self.face, &self.pending, None),
                Err(WaitError::NoRoom | WaitError::Stopping) => {}
            }
        }
        let charged = is_charged.then(|| (Arc::clone(&self.server), Arc::clone(&self.pending)));
        let ended = ended.map(|attempt| (attempt.reply, Charged(charged)));
        if let Err(Ok((_, mut unheard))) = answer.send(ended)
            && unheard.0.take().is_some()
        {
            // Now, because the next in line has its turn after this.
            engine.give_back(&self.pending).await;
        }
    }

    /// Waits for its turn and passes. `None` if the client is gone.
    async fn pass(
        &self,
        place: &mut Option<Place>,
        answer: &mut Answer,
    ) -> Result<Option<Attempt>, WaitError> {
        let (engine, pending) = (&self.server.engine, &*self.pending);
        if let Some(reply) = engine.answer_at_once(pending).await? {
            return Ok(Some(Attempt::uncharged(reply)));
        }
        let (policy, key) = pending.line();
        if !engine.lines().holds_up(policy, key) {
            // Not in line yet, because that would hold up checks of a key that has room for all.
            let attempt = engine.attempt(pending).await?;
            if attempt.is_admitted() || self.wakes_at(&attempt.reply).is_none() {
                return Ok(Some(attempt));
            }
        }
        let bounds = self.server.waits().lines;
        let place = match engine.lines().join((policy, key), pending.cost().clone(), bounds) {
            Ok(joined) => place.insert(joined),
            Err(LineFull::Key) => {
                let ahead = engine.lines().all(policy, key).unwrap_or_default();
                let reply = engine.refuse_behind(pending, &ahead).await?;
                return Ok(Some(Attempt::uncharged(reply)));
            }
            Err(LineFull::Policy) => {
                engine.metrics().count_shed(self.face);
                return Err(WaitError::NoRoom);
            }
        };
        if let Some(ahead) = place.ahead() {
            let reply = engine.refuse_behind(pending, &ahead).await?;
            if self.wakes_at(&reply).is_none() {
                return Ok(Some(Attempt::uncharged(reply)));
            }
        }
        let mut phase = self.server.phase();
        loop {
            let wakes_at = if place.is_first() {
                let attempt = engine.attempt(pending).await?;
                match self.wakes_at(&attempt.reply) {
                    Some(at) if !attempt.is_admitted() => at,
                    _ => return Ok(Some(attempt)),
                }
            } else if Instant::now() >= self.until {
                let ahead = place.ahead().unwrap_or_default();
                let reply = engine.refuse_behind(pending, &ahead).await?;
                return Ok(Some(Attempt::uncharged(reply)));
            } else {
                self.until
            };
            tokio::select! {
                biased;
                () = answer.closed() => return Ok(None),
                _ = phase.wait_for(|phase| *phase >= Phase::Draining) => {
                    return Err(WaitError::Stopping);
                }
                () = place.woken() => {}
                () = sleep_until(wakes_at) => {}
            }
        }
    }

    /// When a refused caller is to try again; `None` if that is never, or too late.
    fn wakes_at(&self, reply: &Reply) -> Option<Instant> {
        let (now, wait) = (Instant::now(), reply.answer.decision.retry_after()?);
        let at = now.checked_add(wait).filter(|at| *at <= self.until)?;
        Some(at.max(now + MIN_PAUSE))
    }
}
