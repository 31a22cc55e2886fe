//! A log read on a thread of its own, while what it says is decided about on another.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use super::Log;
use super::entry::Entry;
use crate::failure::Failure;
use crate::trace::event::Event;

/// How many entries are handed over at a time, if their keys are no longer than keys should be,
const BATCH: usize = 1_024;
const BATCH_BYTES: usize = 1 << 20;
/// and how many such batches may wait.
const WAITING: usize = 4;

enum Message {
    Batch(Vec<Entry>),
    End(Result<(), Failure>, Vec<String>),
}

/// The reading end of a log.
pub(in crate::trace) struct Ahead {
    messages: Receiver<Message>,
    /// Where batches go back to when they are done with, so that nothing is allocated anew.
    done: Sender<Vec<Entry>>,
    batch: Vec<Entry>,
    next: usize,
    remarks: Vec<String>,
    is_end: bool,
}

impl Ahead {
    /// Begins to read. The thread ends with the log, or soon after nobody listens any more.
    pub(super) fn start(log: Log) -> Result<Ahead, Failure> {
        let (sender, messages) = sync_channel(WAITING);
        let (done, used) = channel();
        thread::Builder::new()
            .spawn(move || read(log, &sender, &used))
            .map_err(|error| format!("the log cannot be read on a thread: {error}"))?;
        let (batch, remarks) = (Vec::new(), Vec::new());
        Ok(Ahead { messages, done, batch, next: 0, remarks, is_end: false })
    }

    pub(in crate::trace) fn next_event(&mut self) -> Result<Option<Event<'_>>, Failure> {
        while self.next == self.batch.len() && !self.is_end {
            // A thread that ended before may have left without its batches.
            let _ = self.done.send(std::mem::take(&mut self.batch));
            self.next = 0;
            match self.messages.recv() {
                Ok(Message::Batch(batch)) => self.batch = batch,
                Ok(Message::End(end, remarks)) => {
                    (self.is_end, self.remarks) = (true, remarks);
                    end?;
                }
                Err(_) => return Err("the log is not read any more".to_owned().into()),
            }
        }
        let event = self.batch.get(self.next).map(Entry::event);
        self.next += usize::from(event.is_some());
        Ok(event)
    }

    pub(in crate::trace) fn remarks(&self) -> &[String] {
        &self.remarks
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
            Err(failure) => break Err(failure),
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
    // Whoever does not listen any more does not care for the end either.
    if listener.send(Message::Batch(batch)).is_ok() {
        let _ = listener.send(Message::End(end, log.remarks()));
    }
}
