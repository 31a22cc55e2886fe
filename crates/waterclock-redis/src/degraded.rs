//! Without the store: what the policies say is to be done, and making good for it afterwards.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::task::JoinSet;
use tokio::time::Instant;
use waterclock::{Answer, Charge, Cost, OnStoreError, Source, StoreError, Verb};

use crate::decide::Line;
use crate::stand_in::{AT_ONCE, Unsettled, may_try_later, wave_through};
use crate::store::Inner;

impl Inner {
    /// Answers in the store's place, or not at all. The strictest of the policies decides.
    pub(crate) async fn stand_in(
        &self,
        error: StoreError,
        verb: Verb,
        charges: &[Charge<'_>],
        lines: &[Line],
    ) -> Result<Vec<Answer>, StoreError> {
        let says = |what| lines.iter().any(|line| line.entry.serving.on_store_error == what);
        // What is given back or forgotten here would still be charged there. What is debited here counts
        // here, and there when it is back.
        let must_reach_it = matches!(verb, Verb::Refund | Verb::Reset);
        if says(OnStoreError::Deny) || must_reach_it {
            Err(error)
        } else if says(OnStoreError::Local) {
            let answers = self.local.apply(verb, charges).await?;
            // A debit that may have been made there is not made again.
            if verb == Verb::Debit && may_try_later(&error) {
                self.local.note_debits(charges);
            }
            Ok(answers)
        } else {
            charges.iter().map(|charge| self.wave_through(charge)).collect()
        }
    }

    fn wave_through(&self, charge: &Charge<'_>) -> Result<Answer, StoreError> {
        Ok(wave_through(&self.entry(charge.policy)?.policy, &charge.cost))
    }

    /// Tells the store what was admitted without it, now that it answers again.
    pub(crate) fn settle_soon(self: &Arc<Self>, answers: &[Answer]) {
        // Refusals and leases are answered from memory: they do not prove that it does.
        let is_back = answers.iter().any(|answer| answer.source == Source::Authoritative);
        if !is_back || !self.local.is_unsettled() || self.settling.swap(true, Ordering::Relaxed) {
            return;
        }
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            _ = inner.settle().await;
            inner.settling.store(false, Ordering::Relaxed);
        });
    }

    async fn settle(self: &Arc<Self>) -> Result<(), StoreError> {
        let mut under_way = JoinSet::new();
        for unsettled in self.local.take_unsettled().await? {
            let inner = Arc::clone(self);
            under_way.spawn(async move { inner.settle_one(&unsettled).await });
            if under_way.len() >= AT_ONCE {
                under_way.join_next().await;
            }
        }
        under_way.join_all().await;
        Ok(())
    }

    async fn settle_one(&self, unsettled: &Unsettled) {
        let Ok(entry) = self.entry(&unsettled.policy) else { return };
        let record = self.keyspace.record(entry.mark, &unsettled.key);
        let line = Line { entry, record, cost: unsettled.cost.clone() };
        let by = Instant::now() + self.deadline;
        let filled = match line.cost.plain() {
            Some(_) => self.fill(&line, by).await.map(|(_, charged)| Cost::from(charged)),
            None => self.fill_each(&line, by).await,
        };
        match filled {
            Ok(charged) => self.local.settled(unsettled, charged).await,
            Err(error) if may_try_later(&error) => self.local.put_back(unsettled),
            // It may have been charged, so it is not told twice. It stays used here.
            Err(_) => {}
        }
    }
}
