//! Who of this process waits for a shared store or its answer, in order of arrival: one line per key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::unconstrained;
use waterclock::WaitError;

/// A fair lock for each key that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Line {
    turns: Mutex<HashMap<Box<str>, Arc<Turn>>>,
}

type Turn = tokio::sync::Mutex<()>;

impl Line {
    /// Takes the last place, unless more than `most` wait already.
    pub(super) fn join(&self, key: &str, most: usize) -> Result<Place<'_>, WaitError> {
        let mut turns = self.turns();
        let turn = match turns.get(key) {
            // One of the references is this map's own.
            Some(turn) if Arc::strong_count(turn) - 1 > most => return Err(WaitError::Backlog),
            Some(turn) => Arc::clone(turn),
            None => Arc::clone(turns.entry(key.into()).or_default()),
        };
        Ok(Place { line: self, key: key.into(), turn })
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Turn>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in a line; dropped, it is free.
#[derive(Debug)]
pub(super) struct Place<'l> {
    line: &'l Line,
    key: Box<str>,
    turn: Arc<Turn>,
}

impl Place<'_> {
    /// Ready when this place is the first, until what it returns is dropped.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        // A task that has done much is asked to pause before it is let into the line, and would be overtaken.
        unconstrained(self.turn.lock()).await
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut turns = self.line.turns();
        // The map's and this one: nobody else is left, and nobody can join meanwhile.
        if Arc::strong_count(&self.turn) == 2 {
            turns.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_there_for_as_long_as_somebody_stands_in_it() {
        let line = Line::default();
        let first = line.join("a", 1).expect("room");
        let second = line.join("a", 1).expect("room");
        assert_eq!(line.join("a", 1).map(drop), Err(WaitError::Backlog));
        assert!(line.join("b", 0).is_ok(), "another line");
        drop(first);
        assert!(line.turns().contains_key("a"));
        drop(second);
        assert!(line.turns().is_empty());
    }
}
