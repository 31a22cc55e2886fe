//! Without the server: what stands in for it, and telling it afterwards.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper_util::client::legacy::connect::Connect;
use waterclock::fallback::{Unsettled, fitting, wave_through};
use waterclock::{Answer, Charge, Cost, Failure, OnStoreError, Policy, Source, StoreError, Verb};

use super::Inner;
use super::no_answer::NoAnswer;

impl<C: Connect + Clone + Send + Sync + 'static> Inner<C> {
    /// Answers in the server's place, or not at all.
    pub(super) async fn stand_in(
        &self,
        error: StoreError,
        verb: Verb,
        charges: &[Charge<'_>],
        policies: &[Arc<Policy>],
    ) -> Result<Vec<Answer>, StoreError> {
        // What is given back or forgotten here would still be charged there.
        if !matches!(verb, Verb::Check | Verb::Peek) {
            return Err(error);
        }
        match self.on_store_error {
            OnStoreError::Deny => Err(error),
            OnStoreError::Local => self.local.apply(verb, charges).await,
            OnStoreError::Allow => {
                let through = charges.iter().zip(policies);
                Ok(through.map(|(charge, policy)| wave_through(policy, &charge.cost)).collect())
            }
        }
    }

    /// Tells the server what was admitted without it, now that it answers again.
    pub(super) fn settle_soon(self: &Arc<Self>) {
        if !self.local.is_unsettled() || self.is_settling.swap(true, Ordering::Relaxed) {
            return;
        }
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            inner.settle().await;
            inner.is_settling.store(false, Ordering::Relaxed);
        });
    }

    async fn settle(&self) {
        let Ok(unsettled) = self.local.take_unsettled().await else { return };
        for unsettled in unsettled {
            match self.settle_one(&unsettled).await {
                Ok(charged) => self.local.settled(&unsettled, charged).await,
                Err(none) if is_certainly_undone(&none) => self.local.put_back(&unsettled),
                // It may have been charged, so it is not told twice. It stays used here.
                Err(_) => {}
            }
        }
    }

    /// Charges as much of it as there is room for, and says how much that was.
    async fn settle_one(&self, unsettled: &Unsettled) -> Result<Cost, NoAnswer> {
        let policies = [self.known.find(&unsettled.policy)?];
        let charge = |cost| Charge { policy: &unsettled.policy, key: &unsettled.key, cost };
        let nothing = unsettled.cost.granted(0);
        let peeked = self.ask(Verb::Peek, &[charge(nothing.clone())], &policies).await;
        let peeked = peeked.map_err(unasked)?;
        let Some(peeked) = peeked.first() else { return Ok(nothing) };
        let cost = fitting(&policies[0], &peeked.limits, &unsettled.cost);
        if cost.is_zero() {
            return Ok(nothing);
        }
        let charged = self.ask(Verb::Check, &[charge(cost.clone())], &policies).await?;
        let by_the_server = |answer: &&Answer| answer.source == Source::Authoritative;
        let granted = charged.iter().find(by_the_server).map_or(0, |said| said.decision.granted());
        Ok(cost.granted(granted))
    }
}

/// A peek that failed charged nothing, however it failed.
fn unasked(none: NoAnswer) -> NoAnswer {
    match none {
        NoAnswer::Said(StoreError::Failed { reason, .. })
        | NoAnswer::Missing(StoreError::Failed { reason, .. }) => {
            NoAnswer::Missing(StoreError::failed(Failure::Open, reason))
        }
        other => other,
    }
}

fn is_certainly_undone(none: &NoAnswer) -> bool {
    use Failure::{Auth, Open, Overloaded, Unreachable};
    match none {
        NoAnswer::Missing(error) => {
            matches!(error.failure(), Some(Open | Overloaded | Unreachable | Auth))
        }
        // A connection that the server has lost may have carried the charge.
        NoAnswer::Said(error) => matches!(error.failure(), Some(Open | Overloaded)),
    }
}
