//! A future beside a busy one in the same task, polled only when it was woken.
//!
//! A task that is woken polls everything in it. What waits for a rare event (the server stops, a connection is idle) would
//! cost as much for each request as reading the request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// Polls a future only when it was woken.
pub(crate) struct Rarely<F> {
    future: F,
    bell: Arc<Bell>,
    /// Wakes through the bell; what the future is polled with.
    waker: Waker,
    /// The task that the bell wakes.
    task: Option<Waker>,
}

struct Bell {
    has_rung: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        if let Some(task) = &*self.task.lock() {
            task.wake_by_ref();
        }
    }
}

impl<F: Future + Unpin> Rarely<F> {
    pub(crate) fn new(future: F) -> Rarely<F> {
        let bell = Arc::new(Bell { has_rung: AtomicBool::new(true), task: Mutex::default() });
        Rarely { future, waker: Waker::from(Arc::clone(&bell)), bell, task: None }
    }
}

impl<F: Future + Unpin> Future for Rarely<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if !this.task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            this.task = Some(context.waker().clone());
            this.bell.task.lock().clone_from(&this.task);
        }
        // From here on the bell knows the task: if it rings later, the task is polled again.
        if !this.bell.has_rung.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        this.bell.has_rung.swap(false, Ordering::Acquire);
        Pin::new(&mut this.future).poll(&mut Context::from_waker(&this.waker))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::pin::pin;

    use futures_util::poll;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn polls_when_woken() {
        let (bell, polls) = (Notify::new(), Cell::new(0));
        let mut waits = pin!(bell.notified());
        let counted = poll_fn(|context| {
            polls.set(polls.get() + 1);
            waits.as_mut().poll(context)
        });
        let mut rarely = Rarely::new(counted);
        for _ in 0..3 {
            assert!(poll!(&mut rarely).is_pending());
        }
        assert_eq!(polls.get(), 1);
        bell.notify_waiters();
        assert!(poll!(&mut rarely).is_ready());
        assert_eq!(polls.get(), 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_event_is_missed() {
        for _ in 0..2_000 {
            let (send, mut receive) = tokio::sync::oneshot::channel();
            let sender = tokio::spawn(async move { send.send(7) });
            assert_eq!(Rarely::new(&mut receive).await, Ok(7));
            assert_eq!(sender.await.unwrap(), Ok(()));
        }
    }
}
