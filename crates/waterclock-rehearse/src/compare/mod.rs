//! Another limiter's decisions, as a log has them, beside a policy's own: where they agree, and why they differ.

mod report;
mod tally;

use waterclock_config::PolicyConfig;

use self::tally::Tally;
use crate::report::{Checked, evicted};
use crate::stage::Stage;
use crate::trace::{Input, OldDecisions, Op, Reading};
use crate::{Error, Note};

/// An old limiter and a new policy after the same traffic. The new one decides in shadow: it changes nothing.
pub struct SideBySide {
    source: String,
    policy: PolicyConfig,
    old: OldDecisions,
    tally: Tally,
    notes: Vec<Note>,
    error: Option<Error>,
}

impl SideBySide {
    /// Plays a log. What was decided before the log turned out to be wrong is kept, and
    /// [`take_error`](Self::take_error) says why it ended.
    pub fn play(
        policy: PolicyConfig,
        old: OldDecisions,
        source: &str,
        reading: &Reading,
        input: Input,
    ) -> Result<SideBySide, Error> {
        let reading = reading.clone().with_old_decisions(old.clone());
        let mut trace = reading.open(input, &[&policy], &[&policy])?;
        let stage = Stage::new(&policy)?;
        let mut tally = Tally { only_new_by: vec![0; policy.limits().len()], ..Tally::default() };
        let error = loop {
            let event = match trace.next_event() {
                Ok(Some(event)) => event,
                Ok(None) => break None,
                Err(wrong) if tally.all.checks == 0 => return Err(wrong),
                Err(wrong) => break Some(wrong),
            };
            let (resolved, answer) = stage.play(&event)?;
            if let (Op::Check, Some(old_refused)) = (event.op, event.old_refused) {
                let (resolved, decision) = (&resolved, &answer.decision);
                let checked = Checked { resolved, t_us: event.t_us, key: &event.key, decision };
                tally.add(&checked, old_refused);
            }
        };
        let evicted = tally.clients.has_evicted().then(evicted);
        let notes = trace.notes().into_iter().chain(stage.note()).chain(evicted).collect();
        drop(stage);
        Ok(SideBySide { source: source.to_owned(), policy, old, tally, notes, error })
    }

    /// Whether there was no traffic, for no reason that the notes name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tally.all.checks == 0 && self.notes.is_empty()
    }

    /// Why the traffic ended early, if it did.
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }
}
