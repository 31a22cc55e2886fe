//! A log read on its own thread, while another decides about its events.

use std::borrow::Cow;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use waterclock::Cost;

use super::Log;
use crate::trace::event::{Event, Op, Request};
use crate::{Error, Note};

/// How many entries, or bytes of keys, are handed over at a time.
const BATCH: usize = 1_024;
const BATCH_BYTES: usize = 1 << 20;
/// How many batches may wait.
const WAITING: usize = 4;

enum Message {
    Batch(Vec<Entry>),
    End(Result<(), Error>, Vec<Note>),
}

/// The receiving end of a log.
pub(in crate::trace) struct ReadAhead {
    messages: Receiver<Message>,
    /// Used batches go back, so that their memory is used again.
    done: Sender<Vec<Entry>>,
    batch: Vec<Entry>,
    next: usize,
    notes: Vec<Note>,
    is_end: bool,
}

impl ReadAhead {
    /// Starts the thread. It ends with the log, or soon after this is dropped.
    pub(super) fn start(log: Log) -> Result<ReadAhead, Error> {
        let (sender, messages) = sync_channel(WAITING);
        let (done, used) = channel();
        thread::Builder::new()
            .spawn(move || read(log, &sender, &used))
            .map_err(|error| format!("cannot start a thread to read the log: {error}"))?;
        let (batch, notes) = (Vec::new(), Vec::new());
        Ok(ReadAhead { messages, done, batch, next: 0, notes, is_end: false })
    }

    pub(in crate::trace) fn next_event(&mut self) -> Result<Option<Event<'_>>, Error> {
        while self.next == self.batch.len() && !self.is_end {
            // The thread may have ended already.
            let _ = self.done.send(std::mem::take(&mut self.batch));
            self.next = 0;
            match self.messages.recv() {
                Ok(Message::Batch(batch)) => self.batch = batch,
                Ok(Message::End(end, notes)) => {
                    (self.is_end, self.notes) = (true, notes);
                    end?;
                }
                Err(_) => return Err("the thread that reads the log has ended unexpectedly".into()),
            }
        }
        let event = self.batch.get(self.next).map(Entry::event);
        self.next += usize::from(event.is_some());
        Ok(event)
    }

    pub(in crate::trace) fn notes(&self) -> &[Note] {
        &self.notes
    }
}

fn read(mut log: Log, listener: &SyncSender<Message>, used: &Receiver<Vec<Entry>>) {
    let (mut batch, mut bytes) = (Vec::with_capacity(BATCH), 0);
    let end = loop {
        match log.next() {
            Ok(Some(entry)) => {
                bytes += entry.size();
                batch.push(entry);
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
        if batch.len() == BATCH || bytes > BATCH_BYTES {
            used.try_iter().flatten().for_each(|entry| log.recycle(entry));
            let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
            bytes = 0;
            if listener.send(Message::Batch(full)).is_err() {
                return;
            }
        }
    };
    // Without a receiver, the end does not matter.
    if listener.send(Message::Batch(batch)).is_ok() {
        let _ = listener.send(Message::End(end, log.notes()));
    }
}

/// An event of a log. Its memory is used again for other events.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) t_us: u64,
    pub(super) key: String,
    pub(super) cost: Option<Cost>,
    pub(super) has_tier: bool,
    pub(super) tier: String,
    /// The keys of the policies after the first, where each forms its own.
    pub(super) other_keys: Vec<String>,
    /// Empty where they are not read or missing. [`MOST_BESIDE`] bounds each.
    pub(super) path: String,
    pub(super) agent: String,
    /// Whether another limiter refused it, where that is read.
    pub(super) old_refused: Option<bool>,
}

/// The most bytes of a path and of a user agent: they are shown to people, and wait for their order with the line.
pub(super) const MOST_BESIDE: usize = 128;

/// Entries with more bytes than this are not used again: long keys are rare, and must not add up.
const SMALL: usize = 1 << 10;

impl Entry {
    /// Whether its memory is worth keeping.
    pub(super) fn is_small(&self) -> bool {
        self.size() <= SMALL
    }

    /// The bytes that its keys take, which may be more than they have: the memory is used again. What stands beside
    /// them is small, and must not change which lines wait for their order.
    pub(super) fn size(&self) -> usize {
        let others: usize = self.other_keys.iter().map(String::capacity).sum();
        self.key.capacity() + self.tier.capacity() + others
    }

    pub(super) fn event(&self) -> Event<'_> {
        Event {
            t_us: self.t_us,
            key: Cow::Borrowed(&self.key),
            cost: self.cost.clone(),
            op: Op::Check,
            tier: self.has_tier.then_some(Cow::Borrowed(self.tier.as_str())),
            factor: None,
            other_keys: Cow::Borrowed(&self.other_keys),
            request: Request { path: Cow::Borrowed(&self.path), agent: Cow::Borrowed(&self.agent) },
            old_refused: self.old_refused,
        }
    }
}
