//! What every connection of every face shares.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::{Semaphore, watch};

use crate::access::{Access, Attempt, Guesses, Role};
use crate::engine::Engine;
use crate::observe::Face;

/// How far the server is with stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Ready.
    Serving,
    /// Not ready any more, so that nobody new is sent here; still serving.
    LameDuck,
    /// Connections end with the request they are at.
    Draining,
}

/// Requests that are worked on at once; more are turned away.
pub(crate) const MOST_AT_ONCE: usize = 4_096;

/// What every connection of every face shares.
pub struct Server {
    /// Policies, exceptions, store and counters.
    pub engine: Engine,
    access: ArcSwap<Access>,
    guesses: Guesses,
    at_once: Arc<Semaphore>,
    phase: watch::Sender<Phase>,
}

impl Server {
    pub(crate) fn new(engine: Engine, access: Access) -> Server {
        Server {
            engine,
            access: ArcSwap::from_pointee(access),
            guesses: Guesses::default(),
            at_once: Arc::new(Semaphore::new(MOST_AT_ONCE)),
            phase: watch::Sender::new(Phase::Serving),
        }
    }

    /// Whether a token from this address opens the role; failures are counted.
    pub fn attempt(&self, face: Face, from: IpAddr, token: Option<&str>, role: Role) -> Attempt {
        let attempt = self.guesses.attempt(&self.access.load(), from, token, role);
        if attempt != Attempt::Granted {
            self.engine.metrics().count_auth_failure(face);
        }
        attempt
    }

    /// Room for one more request, or `None` (counted): then answer that the server is overloaded.
    pub fn admit(&self, face: Face) -> Option<tokio::sync::SemaphorePermit<'_>> {
        let permit = self.at_once.try_acquire().ok();
        if permit.is_none() {
            self.engine.metrics().count_shed(face);
        }
        permit
    }

    /// How far the server is with stopping; wait on it to end a connection in good order.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    pub(crate) fn set_access(&self, access: Access) {
        self.access.store(Arc::new(access));
    }
}
