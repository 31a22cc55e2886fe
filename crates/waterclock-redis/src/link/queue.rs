//! The requests that wait for a server, and the exchanges that send them.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

use redis::Value;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::Instant;
use waterclock::{Clock, Failure, Timestamp};

use super::error::CallError;
use super::exchange::Exchanged;
use super::{Delivery, Link, Request};

/// Exchanges running at once, before new requests wait to be sent together.
const MOST_RUNNING: usize = 4;
/// Requests in one exchange: few enough that the next one is written while this one is decided.
const TOGETHER: usize = 32;
/// Requests that may wait; beyond that the next is rejected at once.
const MOST_WAITING: usize = 8_192;

/// A request that waits for its reply.
pub(super) struct Pending {
    pub(super) request: Request,
    pub(super) delivery: Delivery,
    pub(super) reply: oneshot::Sender<Result<Vec<Value>, CallError>>,
    /// When it was asked, if the caller may leave before the server's deadline is over.
    pub(super) hurried: Option<Timestamp>,
}

impl Pending {
    /// Passes the reply to the caller. If the caller gave up before the deadline, reports the outcome to the breaker now.
    pub(super) fn answer(self, link: &Arc<Link>, reply: Result<Vec<Value>, CallError>) {
        if let (Err(unread), Some(asked)) = (self.reply.send(reply), self.hurried) {
            link.report_late(asked, unread.as_ref().err());
        }
    }
}

#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Pending>,
    running: usize,
}

/// One of the exchanges that run. It counts until it is dropped, be it by a runtime that ends.
struct Running {
    link: Arc<Link>,
    is_over: bool,
}

impl Running {
    /// The requests that go next. Without any, it is over: the next request begins another.
    fn next(&mut self) -> Option<Vec<Pending>> {
        let mut queue = self.link.queue.lock();
        if queue.waiting.is_empty() {
            queue.running -= 1;
            self.is_over = true;
            return None;
        }
        let n = queue.waiting.len().min(TOGETHER);
        // A caller that gave up is not charged.
        Some(queue.waiting.drain(..n).filter(|pending| !pending.reply.is_closed()).collect())
    }

    fn leaves_some_waiting(&self) -> bool {
        !self.link.queue.lock().waiting.is_empty()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            self.link.queue.lock().running -= 1;
        }
    }
}

/// The exchange of a single caller, in its own task. However it ends, requests that came meanwhile go next.
pub(super) struct Alone {
    running: Option<Running>,
    /// Whether a command was sent whose reply has not come. If the caller leaves then, no task reads that reply.
    pub(super) is_asking: bool,
}

impl Drop for Alone {
    fn drop(&mut self) {
        // Without a runtime they go with the next request.
        let (Some(running), Ok(runtime)) = (self.running.take(), Handle::try_current()) else {
            return;
        };
        if self.is_asking {
            runtime.spawn(async {
                let link = Arc::clone(&running.link);
                let asked = link.clock.now();
                // A connection that has gone mute is closed by this.
                let is_well = link.probe().await;
                let mute = || CallError::failed(Failure::Timeout, "no answer to a probe");
                link.report_late(asked, (!is_well).then(mute).as_ref());
                exchange_all(running).await;
            });
        } else if running.leaves_some_waiting() {
            runtime.spawn(exchange_all(running));
        }
    }
}

impl Link {
    /// The turn of a single caller; none if there are others.
    pub(super) fn turn_alone(self: &Arc<Self>) -> Option<Alone> {
        let mut queue = self.queue.lock();
        let is_alone = queue.running == 0 && queue.waiting.is_empty();
        is_alone.then(|| Alone { running: Some(self.run(&mut queue)), is_asking: false })
    }

    fn run(self: &Arc<Self>, queue: &mut Queue) -> Running {
        queue.running += 1;
        Running { link: Arc::clone(self), is_over: false }
    }

    pub(super) fn enqueue(self: &Arc<Self>, pending: Pending) -> Result<(), CallError> {
        let running = {
            let mut queue = self.queue.lock();
            if queue.waiting.len() >= MOST_WAITING {
                return Err(CallError::failed(
                    Failure::Overloaded,
                    "too many calls are queued for this server",
                ));
            }
            queue.waiting.push_back(pending);
            if queue.running >= MOST_RUNNING {
                return Ok(());
            }
            self.run(&mut queue)
        };
        tokio::spawn(exchange_all(running));
        Ok(())
    }
}

/// Runs exchanges until the queue is empty.
///
/// Replies are delivered by one exchange at a time, and the next only begins when what it led to has been written:
/// so the server decides on one batch while the client is busy with another. Without that, exchanges that end
/// together go on in step, and one side always waits.
async fn exchange_all(mut running: Running) {
    let link = Arc::clone(&running.link);
    let mut exchanged = Exchanged::default();
    loop {
        let turn = link.turn.lock().await;
        link.deliver(exchanged);
        // Callers that just got their replies may send the next requests in the same batch.
        yield_now().await;
        let Some(batch) = running.next() else { return };
        let by = Instant::now() + link.settings.deadline;
        let mut exchange = pin!(link.exchange(batch, by));
        exchanged = tokio::select! {
            biased;
            exchanged = &mut exchange => exchanged,
            () = yield_now() => {
                drop(turn);
                exchange.await
            }
        };
    }
}
