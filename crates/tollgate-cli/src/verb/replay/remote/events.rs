//! The events of a trace, read on a thread of their own: a trace that waits for its writer keeps
//! nobody from noticing that the user has had enough.

use std::io::BufRead;
use std::thread;

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::window::WINDOW;
use crate::failure::Failure;
use crate::verb::replay::event::Event;
use crate::verb::replay::trace::Trace;

/// An event, or the complaint that ends the trace.
pub(super) type Next = Result<Event<'static>, Failure>;

/// The thread ends with the trace, or soon after nobody listens any more.
pub(super) fn read_ahead(
    trace: Trace<impl BufRead + Send + 'static>,
) -> Result<Receiver<Next>, Failure> {
    let (sender, receiver) = channel(2 * WINDOW);
    let reader = thread::Builder::new().spawn(move || read(trace, &sender));
    reader.map_err(|error| format!("the trace cannot be read on a thread: {error}"))?;
    Ok(receiver)
}

fn read(mut trace: Trace<impl BufRead>, listener: &Sender<Next>) {
    loop {
        let next = match trace.next_event() {
            Ok(Some(event)) => Ok(event.into_owned()),
            Ok(None) => return,
            Err(failure) => Err(failure),
        };
        let is_last = next.is_err();
        if listener.blocking_send(next).is_err() || is_last {
            return;
        }
    }
}
