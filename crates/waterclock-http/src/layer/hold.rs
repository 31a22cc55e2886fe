//! What is held in the store for as long as a request lasts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;
use waterclock::{Answer, Charge, Cost, Hold, OnExpiry, Settlement, Store, StoreError, Verb};

use super::after::Held;
use super::decide::Gate;

/// How long a request may take until what was held for it is settled. The rest is debited afterwards.
const SETTLED_WITHIN: Duration = Duration::from_secs(3_600);
/// To settle twice is to settle once, so what fails is tried again: eight times within half a minute.
const TRIES: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// What the store says to some charges: one answer for each, and the reservation if there is one.
pub(super) type Said = (Vec<Answer>, Option<String>);

impl<S: Store + 'static> Gate<S> {
    /// Decides about these charges, and holds them if they are admitted.
    ///
    /// A store without an answer can hold nothing. What stands in for it decides then, and the request costs
    /// what it was thought to cost; unless it is about what is `held` at once, which nobody else can know.
    pub(super) async fn hold(
        self: &Arc<Self>,
        charges: &[Charge<'_>],
        held: Places,
    ) -> Result<Said, StoreError> {
        // Chosen here, so that it can be given up if the store's answer is lost.
        let id = format!("{:032x}", fastrand::u128(..));
        // A lease ends when it ends.
        let ttl = (held == Places::None).then_some(SETTLED_WITHIN);
        let hold = Hold { id: Some(&id), ttl, charges, on_expiry: OnExpiry::Keep };
        match self.store.reserve(&hold).await {
            Ok(reserved) => Ok((reserved.answers, reserved.id)),
            Err(error) if error.failure().is_some() => {
                self.give_up(id);
                match held {
                    Places::Some => Err(error),
                    Places::None => Ok((self.store.apply(Verb::Check, charges).await?, None)),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// It may be held though nobody heard of it.
    fn give_up(self: &Arc<Self>, id: String) {
        let gate = Arc::clone(self);
        self.finish(async move {
            match gate.settle_surely(&id, Settlement::Cancel).await {
                Err(StoreError::UnknownReservation(_)) => {}
                settled => gate.note(settled),
            }
        });
    }

    pub(super) async fn settle(&self, held: &Held, used: &[u64]) -> Result<(), StoreError> {
        let costs: Vec<Cost> = used.iter().copied().map(Cost::from).collect();
        match self.settle_surely(&held.id, Settlement::Commit(&costs)).await {
            // It took longer than anything is held. What was held stays charged; the rest is owed.
            Err(StoreError::UnknownReservation(_)) => {
                let owed = held.owed(used);
                match owed.is_empty() {
                    true => Ok(()),
                    false => self.store.apply(Verb::Debit, &owed).await.map(drop),
                }
            }
            settled => settled,
        }
    }

    async fn settle_surely(&self, id: &str, with: Settlement<'_>) -> Result<(), StoreError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..TRIES {
            match self.store.settle(id, with).await {
                Err(error) if error.failure().is_some() && !self.store.answers_at_once() => {
                    sleep(pause).await;
                    pause *= 2;
                }
                settled => return settled.map(drop),
            }
        }
        self.store.settle(id, with).await.map(drop)
    }

    /// The request is answered already: there is nobody to tell but those who count.
    pub(super) fn note(&self, settled: Result<(), StoreError>) {
        if settled.is_err() {
            self.unsettled.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Whether it is about places that are held at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Places {
    None,
    Some,
}
