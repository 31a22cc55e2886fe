//! What must hold of every history of a node, whatever went wrong in it.

mod bound;
mod ending;
mod ledger;
mod line;

use super::plan::Line;
use super::run::{History, Noted, Outcome, lines_of};
use crate::oracle::Broken;

/// The first promise that a history breaks.
#[must_use]
pub fn judge(history: &History) -> Option<Broken> {
    let broken = |oracle: &'static str| move |how: String| Broken { oracle, how };
    None.or_else(|| ending::answered_in_time(history).map(broken("liveness")))
        .or_else(|| line::out_of_turn(history).map(broken("turns")))
        .or_else(|| line::stuck(history).map(broken("wake-ups")))
        .or_else(|| bound::admitted_too_much(history).map(broken("bound")))
        .or_else(|| ledger::unexplained(history).map(broken("ledger")))
        .or_else(|| ending::left_behind(history).map(broken("leaks")))
}

impl History {
    fn lines(&self, call: usize) -> &[Line] {
        lines_of(&self.calls[call].action)
    }

    /// What was told of this key, if the call names it.
    fn at(&self, call: usize, policy: usize, key: usize) -> Option<(usize, &Line)> {
        let mut lines = self.lines(call).iter().enumerate();
        lines.find(|(_, line)| (line.policy, line.key) == (policy, key))
    }
}

/// Whether everything that was asked for is granted.
fn is_granted(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Replies(told) => told.iter().all(|one| one.is_allowed),
        Outcome::Reserved(is_held, _) => *is_held,
        _ => false,
    }
}

/// Whether a node's life begins or ends with this.
fn is_of_life(noted: &Noted) -> bool {
    matches!(noted, Noted::Started(..) | Noted::Crashed(_) | Noted::Stopped)
}
