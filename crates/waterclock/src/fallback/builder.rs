//! Settings of a fallback.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use parking_lot::RwLock;

use super::local::LocalShare;
use super::outage::Outage;
use super::{Breaker, Fallback, Serving, Shared};
use crate::clock::MonotonicClock;
use crate::store::{Failure, StoreError};

/// Settings of a [`Fallback`].
#[derive(Clone, Debug)]
pub struct FallbackBuilder<S> {
    pub(super) store: S,
    pub(super) serving: Serving,
    pub(super) nodes: u64,
    pub(super) silence: Option<Duration>,
}

impl<S> FallbackBuilder<S> {
    /// How many nodes share the store, at least (1): each serves `1/nodes` of a limit while the store is unreachable.
    #[must_use]
    pub fn nodes(mut self, nodes: u64) -> Self {
        self.nodes = nodes;
        self
    }

    /// How policies are served that are set without a [`Serving`].
    #[must_use]
    pub fn serving(mut self, serving: Serving) -> Self {
        self.serving = serving;
        self
    }

    /// How long every call may fail before the breaker opens (100 ms), however few calls there are.
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = Some(silence);
        self
    }

    /// No breaker here: for stores that have one per server.
    #[must_use]
    pub fn without_breaker(mut self) -> Self {
        self.silence = None;
        self
    }

    /// The store with its fallback.
    ///
    /// # Errors
    ///
    /// [`StoreError::Settings`] if there are no nodes.
    pub fn build(self) -> Result<Fallback<S>, StoreError> {
        if self.nodes == 0 {
            return Err(StoreError::settings("the store's `nodes` is zero"));
        }
        let shared = Shared {
            store: self.store,
            breaker: self.silence.map(Breaker::new),
            clock: MonotonicClock::default(),
            local: LocalShare::default(),
            nodes: self.nodes,
            outage: Outage::default(),
            policies: RwLock::default(),
            serving: self.serving,
            is_reconciling: AtomicBool::new(false),
            failures: [const { AtomicU64::new(0) }; Failure::ALL.len()],
        };
        Ok(Fallback { shared: Arc::new(shared) })
    }
}
