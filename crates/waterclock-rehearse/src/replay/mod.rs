//! Replay: a trace through one policy, in the trace's own time.

mod redis;

pub use self::redis::through_redis;

use std::io::{self, BufWriter, Write};

use waterclock::Decision;
use waterclock_config::{DecisionLine, PolicyConfig};

use crate::Error;
use crate::report::{Checked, Ledger};
use crate::stage::{Resolved, Stage};
use crate::trace::{Event, Op, Trace};

/// Receives every event with its decision.
pub trait Observer {
    /// Takes note of an event, the policy that applied, and the decision for the client.
    fn observe(
        &mut self,
        event: &Event<'_>,
        resolved: &Resolved<'_>,
        decision: &Decision,
    ) -> io::Result<()>;
}

/// How far a replay came.
#[derive(Debug)]
#[non_exhaustive]
pub struct Replayed {
    /// Whether there was not a single event.
    pub is_empty: bool,
    /// Why it ended before the trace did.
    pub error: Option<Error>,
    /// Notes about the trace.
    pub notes: Vec<String>,
    /// Warnings about the store.
    pub warnings: Vec<String>,
}

/// Replays a trace through a store in memory.
pub fn through_memory(
    policy: &PolicyConfig,
    mut trace: Trace,
    observer: &mut impl Observer,
) -> Result<Replayed, Error> {
    let stage = Stage::new(policy)?;
    let mut is_empty = true;
    let error = loop {
        match trace.next_event() {
            Ok(Some(event)) => {
                is_empty = false;
                let (resolved, decision) = stage.play(&event)?;
                observer.observe(&event, &resolved, &decision)?;
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    let notes = trace.notes().into_iter().chain(stage.note()).collect();
    Ok(Replayed { is_empty, error, notes, warnings: Vec::new() })
}

/// Writes a line of JSON for every event.
pub struct DecisionLines<W: Write>(BufWriter<W>);

impl<W: Write> DecisionLines<W> {
    /// Writes to this output.
    pub fn new(out: W) -> DecisionLines<W> {
        DecisionLines(BufWriter::with_capacity(1 << 16, out))
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> Observer for DecisionLines<W> {
    fn observe(
        &mut self,
        event: &Event<'_>,
        resolved: &Resolved<'_>,
        decision: &Decision,
    ) -> io::Result<()> {
        let line = DecisionLine::new(resolved.policy(), &event.key, resolved.cost(), decision)
            .of_event(event.t_us, event.op.name_in_answer());
        serde_json::to_writer(&mut self.0, &line)?;
        self.0.write_all(b"\n")
    }
}

impl Observer for Ledger {
    fn observe(
        &mut self,
        event: &Event<'_>,
        resolved: &Resolved<'_>,
        decision: &Decision,
    ) -> io::Result<()> {
        if event.op == Op::Check {
            self.add(&Checked { resolved, t_us: event.t_us, key: &event.key, decision });
        } else {
            self.add_other();
        }
        Ok(())
    }
}
