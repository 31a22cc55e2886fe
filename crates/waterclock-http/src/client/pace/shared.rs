//! Turns by a store that other processes ask as well: one queue per key in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::unconstrained;
use tokio::time;
use waterclock::{Answer, Charge, Failure, Mode, Policy, Store, StoreError, Verb, WaitError};

use super::pacer::{PaceFailure, Turn, TurnRequest, Turns};

/// The same as for limiters of this process.
const MAX_BACKLOG: usize = 65_536;

pub(super) struct SharedPacer<S> {
    store: S,
    policy: Box<str>,
    queues: Queues,
}

impl<S: Store + 'static> SharedPacer<S> {
    pub(super) async fn new(store: S, policy: Policy) -> Result<Self, StoreError> {
        let name: Box<str> = policy.name().into();
        if policy.mode() != Mode::Binary {
            return Err(StoreError::unfit(format!(
                "policy `{name}` cannot pace requests over a shared store, because its mode is not \
                 binary; use mode binary, or a limiter of this process"
            )));
        }
        if policy.counts_several() {
            return Err(StoreError::unfit(format!(
                "policy `{name}` cannot pace requests, because it counts several units, but a request has one \
                 cost; use a policy with one unit"
            )));
        }
        store.set_policy(policy).await?;
        Ok(Self { store, policy: name, queues: Queues::default() })
    }

    fn charge<'a>(&'a self, key: &'a str, cost: u64) -> [Charge<'a>; 1] {
        [Charge::new(&self.policy, key.as_bytes(), cost)]
    }

    /// Asks the store; returns how long to wait before asking again, or `None` if it is this request's turn.
    async fn ask(&self, key: &str, cost: u64) -> Result<Option<Duration>, PaceFailure> {
        read(self.store.apply(Verb::Check, &self.charge(key, cost)).await)
    }

    /// Queues from the first poll on, so that the order is that of arrival, and the store is asked about one
    /// request at a time.
    async fn wait(&self, wanted: TurnRequest) -> Result<(), PaceFailure> {
        let TurnRequest { key, cost, bounds, backlog } = wanted;
        let deadline = bounds.deadline();
        let place = self.queues.join(&key, backlog.unwrap_or(MAX_BACKLOG))?;
        let _turn = match deadline {
            Some(deadline) => time::timeout(deadline.since(bounds.now()), place.turn())
                .await
                .map_err(|_| WaitError::Deadline)?,
            None => place.turn().await,
        };
        while let Some(wait) = self.ask(&key, cost).await? {
            // A wait beyond the deadline fails at once.
            time::sleep(bounds.sleep(wait, deadline).ok_or(WaitError::Deadline)?).await;
        }
        Ok(())
    }
}

fn read(answers: Result<Vec<Answer>, StoreError>) -> Result<Option<Duration>, PaceFailure> {
    let answers = answers?;
    let Some(answer) = answers.first() else {
        return Err(StoreError::failed(Failure::BadReply, "no answer to a charge").into());
    };
    if answer.decision.is_allowed() {
        return Ok(None);
    }
    Ok(Some(answer.decision.retry_after().ok_or(WaitError::Never)?))
}

impl<S: Store + 'static> Turns for SharedPacer<S> {
    fn take(self: Arc<Self>, wanted: TurnRequest) -> Turn {
        Box::pin(async move { self.wait(wanted).await })
    }
}

/// The requests of this process that wait for the store or its answer: a fair lock for each key.
#[derive(Debug, Default)]
struct Queues {
    locks: Mutex<HashMap<Box<str>, Arc<QueueLock>>>,
}

type QueueLock = tokio::sync::Mutex<()>;

impl Queues {
    /// Takes the last place, unless more than `most` requests wait already.
    fn join(&self, key: &str, most: usize) -> Result<Place<'_>, WaitError> {
        let mut locks = self.lock();
        let lock = match locks.get(key) {
            // One of the references is the map's.
            Some(lock) if Arc::strong_count(lock) - 1 > most => return Err(WaitError::Backlog),
            Some(lock) => Arc::clone(lock),
            None => Arc::clone(locks.entry(key.into()).or_default()),
        };
        Ok(Place { queues: self, key: key.into(), lock })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<QueueLock>>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in a queue, until it is dropped.
#[derive(Debug)]
struct Place<'q> {
    queues: &'q Queues,
    key: Box<str>,
    lock: Arc<QueueLock>,
}

impl Place<'_> {
    /// Waits until this place is the first. It stays the first until the guard is dropped.
    async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        // Tokio makes a busy task yield before it enters the lock's queue, and others would overtake it.
        unconstrained(self.lock.lock()).await
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut locks = self.queues.lock();
        // The map's reference and this one: the queue is empty, and the map is locked.
        if Arc::strong_count(&self.lock) == 2 {
            locks.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_exists_for_as_long_as_requests_wait_in_it() {
        let queues = Queues::default();
        let first = queues.join("a", 1).expect("room");
        let second = queues.join("a", 1).expect("room");
        assert_eq!(queues.join("a", 1).map(drop), Err(WaitError::Backlog));
        assert!(queues.join("b", 0).is_ok(), "another queue");
        drop(first);
        assert!(queues.lock().contains_key("a"));
        drop(second);
        assert!(queues.lock().is_empty());
    }
}
