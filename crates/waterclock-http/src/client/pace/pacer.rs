//! Who says whose turn it is.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use waterclock::{Clock, KeyedLimiter, Policy, Store, StoreError};

use super::error::Stopped;
use super::shared::Shared;
use crate::client::patience::Patience;

/// Who says whose turn it is: a [`KeyedLimiter`] of this process, or a store that several processes
/// [share](Self::shared).
#[derive(Clone)]
pub struct Pacer(Arc<dyn Turns>);

pub(super) type Turn = Pin<Box<dyn Future<Output = Result<(), Stopped>> + Send>>;

pub(super) trait Turns: Send + Sync {
    /// The turn, if it has come and that can be told at once; of what is elsewhere nothing can.
    fn take_now(&self, key: &str, cost: u64) -> Option<Result<(), Stopped>> {
        _ = (key, cost);
        None
    }

    /// The turn, when it comes.
    fn take(
        self: Arc<Self>,
        key: String,
        cost: u64,
        patience: Patience,
        backlog: Option<usize>,
    ) -> Turn;
}

impl Pacer {
    /// Several processes keep to one limit, whose counts are in this store. The policy is set there.
    ///
    /// In this process the requests of one key stand in a line, and only the first of them asks; one that is
    /// refused asks again when it was told to, and the others wait behind it. So each process sends at most
    /// one request per key and round trip to the store, also while the limit would admit more; between
    /// processes there is no order. A store that fails fails the request: a call that timed out may have been
    /// charged, so it is not repeated.
    ///
    /// The policy's mode has to be binary: a part of a request cannot be sent, and asking again must not
    /// count.
    pub async fn shared(store: impl Store + 'static, policy: Policy) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(Shared::new(store, policy).await?)))
    }

    pub(super) fn take_now(&self, key: &str, cost: u64) -> Option<Result<(), Stopped>> {
        match cost {
            0 => Some(Ok(())),
            _ => self.0.take_now(key, cost),
        }
    }

    pub(super) fn take(
        &self,
        key: String,
        cost: u64,
        patience: Patience,
        backlog: Option<usize>,
    ) -> Turn {
        Arc::clone(&self.0).take(key, cost, patience, backlog)
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
    fn take_now(&self, key: &str, cost: u64) -> Option<Result<(), Stopped>> {
        // A refused check may leave a trace, in modes other than binary; a peek never does.
        if !self.peek_n(key, cost).is_allowed() {
            return None;
        }
        // A check stands back while others wait for this key.
        let decision = self.check_n(key, cost);
        if decision.is_allowed() {
            return Some(Ok(()));
        }
        if decision.granted() > 0 {
            // Somebody came between, and a part of the cost is of no use here.
            self.refund(key, decision.granted());
        }
        None
    }

    fn take(
        self: Arc<Self>,
        key: String,
        cost: u64,
        patience: Patience,
        backlog: Option<usize>,
    ) -> Turn {
        Box::pin(async move {
            let mut wait = self.wait_n(&key, cost).jitter(patience.jitter);
            if let Some(within) = patience.within {
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
