//! The waiters, in order of arrival: one queue per key, no timers, no checks.

use std::collections::{BTreeMap, HashMap};
use std::task::{Context, Poll, Waker};

use super::WaitError;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

/// The queues of a limiter.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// How many wait in all, so that a limiter without waiters pays one load.
    waiting: AtomicUsize,
    queues: Mutex<HashMap<u64, Queue>>,
}

/// The waiters for one key, in the order in which they came.
#[derive(Debug, Default)]
struct Queue {
    next: u64,
    cost: u64,
    waiters: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    cost: u64,
    waker: Option<Waker>,
    /// Something changed since the waiter last looked.
    nudged: bool,
}

impl Line {
    /// Whether there are no waiters.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    /// What the waiters for a key want together.
    pub(crate) fn backlog(&self, key: u64) -> u64 {
        lock(&self.queues).get(&key).map_or(0, |queue| queue.cost.max(1))
    }

    /// Takes the last place in the queue of a key, unless more than `most` wait there already.
    pub(crate) fn join(&self, key: u64, cost: u64, most: usize) -> Result<Place<'_>, WaitError> {
        let mut queues = lock(&self.queues);
        let queue = queues.entry(key).or_default();
        if queue.waiters.len() > most {
            return Err(WaitError::Backlog);
        }
        let number = queue.next;
        queue.next += 1;
        queue.cost = queue.cost.saturating_add(cost);
        queue.waiters.insert(number, Waiting { cost, waker: None, nudged: false });
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Ok(Place { line: self, key, number })
    }

    /// Wakes the first in line: something was given back.
    pub(crate) fn nudge(&self, key: u64) {
        if self.is_empty() {
            return;
        }
        wake(lock(&self.queues).get_mut(&key).and_then(Queue::nudge_first));
    }

    /// Wakes the first of every queue: the policy changed.
    pub(crate) fn nudge_all(&self) {
        let wakers: Vec<_> = lock(&self.queues).values_mut().map(Queue::nudge_first).collect();
        wakers.into_iter().for_each(wake);
    }
}

impl Queue {
    #[must_use]
    fn nudge_first(&mut self) -> Option<Waker> {
        let mut first = self.waiters.first_entry()?;
        first.get_mut().nudged = true;
        first.get_mut().waker.take()
    }
}

/// Wakers run foreign code: only without the lock.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A place in a queue. Dropping it, for whatever reason, lets the next one have its turn.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    line: &'a Line,
    key: u64,
    number: u64,
}

impl Place<'_> {
    /// Ready when this place is the first; else the task is woken when it is.
    pub(crate) fn poll_turn(&self, context: &Context<'_>) -> Poll<()> {
        self.poll(context, |is_first, _| is_first)
    }

    /// Ready when something changed since the last call; else the task is woken when it does.
    pub(crate) fn poll_nudged(&self, context: &Context<'_>) -> Poll<()> {
        self.poll(context, |_, nudged| nudged)
    }

    fn poll(&self, context: &Context<'_>, is_ready: impl Fn(bool, bool) -> bool) -> Poll<()> {
        let mut queues = lock(&self.line.queues);
        let Some(queue) = queues.get_mut(&self.key) else { return Poll::Ready(()) };
        let is_first = queue.waiters.first_key_value().is_some_and(|(n, _)| *n == self.number);
        let Some(own) = queue.waiters.get_mut(&self.number) else { return Poll::Ready(()) };
        if is_ready(is_first, std::mem::take(&mut own.nudged)) {
            return Poll::Ready(());
        }
        own.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&self.line.queues);
        let mut next = None;
        if let Some(queue) = queues.get_mut(&self.key) {
            if let Some(own) = queue.waiters.remove(&self.number) {
                queue.cost = queue.cost.saturating_sub(own.cost);
                self.line.waiting.fetch_sub(1, Ordering::SeqCst);
            }
            let first = queue.waiters.first_key_value().map(|(n, _)| *n);
            if first.is_some_and(|first| first > self.number) {
                next = queue.nudge_first();
            }
            if queue.waiters.is_empty() {
                queues.remove(&self.key);
            }
        }
        drop(queues);
        wake(next);
    }
}
