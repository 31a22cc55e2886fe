//! What decides whose turn it is.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use waterclock::{Clock, KeyedLimiter, Policy, Store, StoreError, WaitError};

use super::shared::SharedPacer;
use crate::client::wait::WaitBounds;

/// Decides whose turn it is: a [`KeyedLimiter`] of this process, or a store that several processes
/// [share](Self::shared).
#[derive(Clone)]
pub struct Pacer(Arc<dyn Turns>);

pub(super) type Turn = Pin<Box<dyn Future<Output = Result<(), PaceFailure>> + Send>>;

/// A request that waits for its turn.
pub(super) struct TurnRequest {
    pub(super) key: String,
    pub(super) cost: u64,
    pub(super) bounds: WaitBounds,
    pub(super) backlog: Option<usize>,
}

/// Why a turn did not come.
#[derive(Debug)]
pub(super) enum PaceFailure {
    Wait(WaitError),
    Store(StoreError),
}

impl From<WaitError> for PaceFailure {
    fn from(error: WaitError) -> Self {
        Self::Wait(error)
    }
}

impl From<StoreError> for PaceFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

pub(super) trait Turns: Send + Sync {
    /// Takes a turn if that needs no wait. A remote store always needs one.
    fn takes_now(&self, key: &str, cost: u64) -> bool {
        _ = (key, cost);
        false
    }

    /// Waits for a turn.
    fn take(self: Arc<Self>, wanted: TurnRequest) -> Turn;
}

impl Pacer {
    /// Several processes keep to one limit with this store. The policy is set there.
    ///
    /// In each process, the requests of one key form a queue, and only the first of them asks the store; if
    /// it is refused, it asks again after the store's `retry_after`, and the others wait behind it. So each
    /// process sends at most one request per key and round trip to the store, even if the limit would admit
    /// more. Between processes there is no order. A store that fails, fails the request: a call that timed out
    /// may have been charged, so it is not repeated.
    ///
    /// # Errors
    ///
    /// The policy's mode must be binary, because a part of a request cannot be sent, and asking again must not
    /// count; and it must have one unit.
    pub async fn shared(store: impl Store + 'static, policy: Policy) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(SharedPacer::new(store, policy).await?)))
    }

    pub(super) fn takes_now(&self, key: &str, cost: u64) -> bool {
        cost == 0 || self.0.takes_now(key, cost)
    }

    pub(super) fn take(&self, wanted: TurnRequest) -> Turn {
        Arc::clone(&self.0).take(wanted)
    }
}

impl<C: Clock + 'static> From<KeyedLimiter<String, C>> for Pacer {
    fn from(limiter: KeyedLimiter<String, C>) -> Self {
        Self(Arc::new(limiter))
    }
}

impl<C: Clock + 'static> From<Arc<KeyedLimiter<String, C>>> for Pacer {
    fn from(limiter: Arc<KeyedLimiter<String, C>>) -> Self {
        Self(limiter)
    }
}

impl<C: Clock + 'static> Turns for KeyedLimiter<String, C> {
    fn takes_now(&self, key: &str, cost: u64) -> bool {
        // A refused check may leave a trace, in modes other than binary; a peek never does.
        if !self.peek_n(key, cost).is_allowed() {
            return false;
        }
        // A check is refused while other requests wait for this key.
        let decision = self.check_n(key, cost);
        if !decision.is_allowed() && decision.granted() > 0 {
            // Another request came between, and a partial grant is of no use here.
            self.refund(key, decision.granted());
        }
        decision.is_allowed()
    }

    fn take(self: Arc<Self>, wanted: TurnRequest) -> Turn {
        Box::pin(async move {
            let TurnRequest { key, cost, bounds, backlog } = wanted;
            let mut wait = self.wait_n(&key, cost).jitter(bounds.jitter);
            if let Some(within) = bounds.within {
                wait = wait.within(within);
            }
            if let Some(most) = backlog {
                wait = wait.backlog(most);
            }
            Ok(wait.await?)
        })
    }
}

impl fmt::Debug for Pacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer").finish_non_exhaustive()
    }
}
