//! A decision per line, in the order of the events.

use std::io::{self, BufWriter, Write};

use waterclock::Decision;
use waterclock_server::decision_line::DecisionLine;

use super::Audience;
use crate::stage::Turn;
use crate::trace::Event;

pub(super) struct Jsonl<W: Write>(BufWriter<W>);

impl<W: Write> Jsonl<W> {
    pub(super) fn new(out: W) -> Jsonl<W> {
        Jsonl(BufWriter::with_capacity(1 << 16, out))
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> Audience for Jsonl<W> {
    fn hear(&mut self, turn: &Turn<'_>, event: &Event<'_>, decision: &Decision) -> io::Result<()> {
        let line = DecisionLine::new(turn.policy(), &event.key, turn.cost(), decision)
            .of_event(event.t_us, event.op.answer_names_it());
        serde_json::to_writer(&mut self.0, &line)?;
        self.0.write_all(b"\n")
    }
}
