//! Liveness, and what is left behind.

use waterclock::Source;

use crate::plan::{Action, HELD, KEYS, NAMES, PLACES};
use crate::run::{History, Outcome};

/// The deadline of a call, and what an answer may take beyond it.
const DEADLINE_MS: u64 = 50;
const SLACK_MS: u64 = 5;

/// How a call was not answered within its deadline.
pub(super) fn answered_in_time(history: &History) -> Option<String> {
    history.events.iter().find_map(|event| {
        let took = event.returned_ms - event.called_ms;
        let deadline = match history.action(event) {
            Action::CheckWithin(_, ms) => *ms,
            _ => DEADLINE_MS,
        };
        // Whoever leaves does so before, or its process ended.
        let is_answered = !matches!(event.outcome, Outcome::Left);
        (is_answered && took > deadline + SLACK_MS).then(|| {
            let action = history.action(event);
            format!("process {} {action}: answered after {took} ms", event.process)
        })
    })
}

/// How a node has not found the servers again that answer.
pub(super) fn recovered(history: &History) -> Option<String> {
    history.ending.recovered.iter().find_map(|(process, told)| match told {
        Ok(Source::Authoritative) => None,
        Ok(source) => Some(format!("process {process} is still told by {}", source.name())),
        Err(error) => Some(format!("process {process} is still told: {error}")),
    })
}

/// What did not end, or is held for ever.
pub(super) fn left_behind(history: &History) -> Option<String> {
    let ending = &history.ending;
    if let Some(key) = ending.lasting.first() {
        return Some(format!("the record {key} never expires"));
    }
    let held = ending.free.iter().zip(KEYS).find(|(free, _)| **free != PLACES);
    if let Some((free, key)) = held {
        return Some(format!(
            "{free} of {PLACES} places of {}/{key} are free at the end",
            NAMES[HELD]
        ));
    }
    (ending.tasks > 0).then(|| format!("{} tasks outlive their stores", ending.tasks))
}
