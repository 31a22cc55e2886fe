//! Charging the store for what was admitted while it was unreachable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::local::Unreconciled;
use super::{Caller, Fallback, Shared};
use crate::store::{Store, Verb};

/// How many keys are charged to the store concurrently after an outage.
#[cfg(feature = "tokio")]
pub(super) const RECONCILED_AT_ONCE: usize = 64;

impl<S: Store + 'static> Fallback<S> {
    /// Reconciles in the background. Without the `tokio` feature or outside a runtime it does nothing.
    pub(super) fn reconcile_soon(&self) {
        #[cfg(feature = "tokio")]
        if self.shared.local.is_unreconciled()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
            && let Some(reconciling) = Reconciling::start(&self.shared)
        {
            let this = self.clone();
            runtime.spawn(async move { this.reconcile_all(reconciling).await });
        }
    }

    /// Charges the store for what was admitted locally and is still in use, as far as it has room for it.
    ///
    /// With the `tokio` feature this happens by itself when the store answers again; without it, call it from time
    /// to time. Where it runs already, it returns at once. If its future is dropped, calls under way count as made,
    /// and the rest waits for another time.
    pub async fn reconcile(&self) {
        if let Some(reconciling) = Reconciling::start(&self.shared) {
            self.reconcile_all(reconciling).await;
        }
    }

    async fn reconcile_all(&self, _until_dropped: Reconciling<S>) {
        let unreconciled = self.shared.local.take_unreconciled().await.into_iter();
        let untried: Vec<Untried<S>> =
            unreconciled.map(|one| Untried(Arc::clone(&self.shared), Some(one))).collect();
        #[cfg(feature = "tokio")]
        {
            let mut running = tokio::task::JoinSet::new();
            for untried in untried {
                let this = self.clone();
                running.spawn(async move { this.reconcile_one(untried).await });
                if running.len() >= RECONCILED_AT_ONCE {
                    running.join_next().await;
                }
            }
            running.join_all().await;
        }
        #[cfg(not(feature = "tokio"))]
        for untried in untried {
            self.reconcile_one(untried).await;
        }
    }

    async fn reconcile_one(&self, mut untried: Untried<S>) {
        let Shared { store, local, .. } = &*self.shared;
        let Some(unreconciled) = untried.1.take() else { return };
        let Some(policy) = local.policy(&unreconciled.policy) else { return };
        let charge = unreconciled.charge(unreconciled.cost.clone());
        // No caller waits for it, so its failures are not counted.
        let filled = match self.shared.permit() {
            Ok(permit) => {
                let filled = store.fill(&policy, &charge).await;
                self.shared.report(permit, Caller::patient(Verb::Check), filled.as_ref().err());
                filled
            }
            Err(error) => Err(error),
        };
        match filled {
            Ok(charged) => local.reconciled(&unreconciled, charged).await,
            Err(error) if !error.may_have_charged() => local.put_back(&unreconciled),
            // It may have been charged, so it is not charged again. It stays used here.
            Err(_) => {}
        }
    }
}

/// What the store was not yet called for. It is put back when this is dropped.
struct Untried<S>(Arc<Shared<S>>, Option<Unreconciled>);

impl<S> Drop for Untried<S> {
    fn drop(&mut self) {
        if let Some(unreconciled) = &self.1 {
            self.0.local.put_back(unreconciled);
        }
    }
}

/// Reconciling ends when this is dropped, also if its future is.
struct Reconciling<S>(Arc<Shared<S>>);

impl<S> Reconciling<S> {
    /// Begins, unless it runs already.
    fn start(shared: &Arc<Shared<S>>) -> Option<Self> {
        let is_running = shared.is_reconciling.swap(true, Ordering::Relaxed);
        (!is_running).then(|| Self(Arc::clone(shared)))
    }
}

impl<S> Drop for Reconciling<S> {
    fn drop(&mut self) {
        self.0.is_reconciling.store(false, Ordering::Relaxed);
    }
}
