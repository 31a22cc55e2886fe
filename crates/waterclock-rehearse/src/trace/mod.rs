//! Events to decide about, in the order of time, from whatever recorded them.

mod event;
mod input;
mod lines;
mod log;
mod own;
mod progress;
mod reading;
mod shown;

pub use self::event::{Event, Op};
pub use self::reading::Reading;

use self::log::Ahead;
use self::own::OwnTrace;
use crate::failure::Failure;

/// Events, one after the other.
pub struct Trace {
    source: Source,
}

enum Source {
    Own(OwnTrace),
    Log(Ahead),
    Nothing,
}

impl Trace {
    /// The next event, or nothing at the end.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, Failure> {
        match &mut self.source {
            Source::Own(trace) => trace.next_event(),
            Source::Log(log) => log.next_event(),
            Source::Nothing => Ok(None),
        }
    }

    /// What there is to tell about the events once all are read, a sentence each.
    pub fn remarks(&self) -> Vec<String> {
        match &self.source {
            Source::Own(_) | Source::Nothing => Vec::new(),
            Source::Log(log) => log.remarks().to_vec(),
        }
    }
}
