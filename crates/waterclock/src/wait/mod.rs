//! Waiting instead of refusing: for work that this program itself controls.

mod line;
mod waiter;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use waterclock_core::Decision;

pub(crate) use line::{Line, Place};
pub(crate) use waiter::Gate;
use waiter::{Step, Waiter};

/// Why a wait ended without being admitted. Nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The cost is above the limit: no wait is long enough.
    Never,
    /// It cannot pass before the deadline.
    Deadline,
    /// Too many wait for this key already.
    Backlog,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "the cost is above the limit, so it can never pass; split it",
            Self::Deadline => "the limiter does not admit this before the deadline",
            Self::Backlog => "too many already wait for this key",
        })
    }
}

impl std::error::Error for WaitError {}

/// The answer to a check of a key that others wait for: not now, and when after them.
#[cold]
pub(crate) fn stand_back(cost: u64, backlog: u64, peek: impl Fn(u64) -> Decision) -> Decision {
    let own = peek(cost);
    if cost == 0 {
        return own;
    }
    let ahead = backlog.saturating_add(cost).min(own.limit().unwrap_or(u64::MAX).max(cost));
    own.refused(peek(ahead).retry_after())
}

/// How to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    within: Option<Duration>,
    backlog: usize,
    jitter: Duration,
}

/// A wait that has not begun: `.await` it, or [`block`](Wait::block) on it.
///
/// Waiters for one key pass in the order in which they came; a check of that key does not
/// overtake them. Dropping a wait frees its place for the next.
#[must_use = "a wait does nothing until it is awaited or blocked on"]
pub struct Wait<'a> {
    gate: Box<dyn Gate + 'a>,
    cost: u64,
    options: Options,
}

impl fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("cost", &self.cost).field("options", &self.options).finish()
    }
}

impl<'a> Wait<'a> {
    pub(crate) fn new(gate: impl Gate + 'a, cost: u64) -> Self {
        let options = Options { within: None, backlog: 65_536, jitter: Duration::ZERO };
        Self { gate: Box::new(gate), cost, options }
    }

    /// Give up when it would take longer than this; at once, if that is known.
    pub fn within(mut self, deadline: Duration) -> Self {
        self.options.within = Some(deadline);
        self
    }

    /// Fails at once if more than this many waits for the key are queued. 65,536 by default; with 0 no wait queues
    /// behind another.
    pub fn backlog(mut self, most: usize) -> Self {
        self.options.backlog = most;
        self
    }

    /// Add up to this much, at random, to each advised wait, so that a crowd does not move as one.
    pub fn jitter(mut self, most: Duration) -> Self {
        self.options.jitter = most;
        self
    }

    /// Blocks this thread until admitted.
    pub fn block(self) -> Result<(), WaitError> {
        let mut waiter = Waiter::new(&*self.gate, self.cost, self.options);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            match waiter.step(&Context::from_waker(&waker)) {
                Step::Done(result) => return result,
                Step::Sleep(Some(wait)) => thread::park_timeout(wait),
                Step::Sleep(None) => thread::park(),
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(feature = "tokio")]
mod on_tokio {
    use std::future::{IntoFuture, poll_fn};
    use std::pin::{Pin, pin};
    use std::task::Poll;

    use super::{Step, Wait, WaitError, Waiter};

    impl<'a> IntoFuture for Wait<'a> {
        type Output = Result<(), WaitError>;
        type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

        fn into_future(self) -> Self::IntoFuture {
            Box::pin(async move {
                let mut waiter = Waiter::new(&*self.gate, self.cost, self.options);
                let mut sleep = pin!(None);
                poll_fn(|context| {
                    loop {
                        match waiter.step(context) {
                            Step::Done(result) => return Poll::Ready(result),
                            Step::Sleep(None) => return Poll::Pending,
                            Step::Sleep(Some(wait)) => sleep.set(Some(tokio::time::sleep(wait))),
                        }
                        let Some(sleep) = sleep.as_mut().as_pin_mut() else { continue };
                        if sleep.poll(context).is_pending() {
                            return Poll::Pending;
                        }
                    }
                })
                .await
            })
        }
    }
}
