//! Replay: a trace through one policy, in the trace's own time.

mod redis;

pub use self::redis::through_redis;

use std::io::{self, Write};

use waterclock::Answer;
use waterclock_config::{DecisionLine, PolicyConfig};

use crate::stage::{Resolved, Stage};
use crate::trace::{Event, Trace};
use crate::{Error, Note};

/// How far a replay came.
#[derive(Debug)]
#[non_exhaustive]
pub struct Replayed {
    /// Whether there was not a single event.
    pub is_empty: bool,
    /// Why it ended before the trace did.
    pub error: Option<Error>,
    /// Notes about the trace.
    pub notes: Vec<Note>,
    /// Warnings about the store.
    pub warnings: Vec<String>,
}

/// Replays a trace through a store in memory. Every event is observed with the policy that applied and the answer
/// for the client.
pub fn through_memory(
    policy: &PolicyConfig,
    mut trace: Trace,
    mut observe: impl FnMut(&Event<'_>, &Resolved<'_>, &Answer) -> io::Result<()>,
) -> Result<Replayed, Error> {
    let stage = Stage::new(policy)?;
    let mut is_empty = true;
    let error = loop {
        match trace.next_event() {
            Ok(Some(event)) => {
                is_empty = false;
                let (resolved, answer) = stage.play(&event)?;
                observe(&event, &resolved, &answer)?;
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    let notes = trace.notes().into_iter().chain(stage.note()).collect();
    Ok(Replayed { is_empty, error, notes, warnings: Vec::new() })
}

/// Writes an event and its decision as a line of JSON.
pub fn write_line(
    out: &mut impl Write,
    event: &Event<'_>,
    resolved: &Resolved<'_>,
    answer: &Answer,
) -> io::Result<()> {
    let line = DecisionLine::new(resolved.policy(), &*event.key, resolved.cost(), answer)
        .of_event(event.t_us, event.op.name_in_answer());
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}
