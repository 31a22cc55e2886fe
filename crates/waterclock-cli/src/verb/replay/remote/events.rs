//! The events of a trace, read on a thread of their own: a trace that waits for its writer keeps
//! nobody from noticing that the user has had enough.

use std::thread::{self, JoinHandle};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::window::WINDOW;
use crate::failure::Failure;
use crate::trace::{Event, Trace};

/// An event, or the complaint that ends the trace.
pub(super) type Next = Result<Event<'static>, Failure>;

/// What is read, and who reads it.
pub(super) struct Ahead {
    pub(super) events: Receiver<Next>,
    reader: JoinHandle<Vec<String>>,
}

impl Ahead {
    /// What there is to tell about the trace, if it was read to its end: who reads no more says so at once.
    pub(super) fn remarks(self, is_read: bool) -> Vec<String> {
        if is_read { self.reader.join().unwrap_or_default() } else { Vec::new() }
    }
}

/// The thread ends with the trace, or soon after nobody listens any more.
pub(super) fn read_ahead(trace: Trace) -> Result<Ahead, Failure> {
    let (sender, events) = channel(2 * WINDOW);
    let reader = thread::Builder::new().spawn(move || read(trace, &sender));
    let reader =
        reader.map_err(|error| format!("the trace cannot be read on a thread: {error}"))?;
    Ok(Ahead { events, reader })
}

fn read(mut trace: Trace, listener: &Sender<Next>) -> Vec<String> {
    loop {
        let next = match trace.next_event() {
            Ok(Some(event)) => Ok(event.into_owned()),
            Ok(None) => return trace.remarks(),
            Err(failure) => Err(failure),
        };
        let is_last = next.is_err();
        if listener.blocking_send(next).is_err() || is_last {
            return Vec::new();
        }
    }
}
