//! What must hold of every history, whatever went wrong in it.

mod bound;
mod conservation;
mod endings;
mod linear;
mod search;

use std::fmt;

use crate::plan::{Action, Line};
use crate::run::{Event, History, Outcome};

/// A promise that a history breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub oracle: &'static str,
    /// How, in a sentence.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.oracle, self.how)
    }
}

/// The first promise that a history breaks.
#[must_use]
pub fn judge(history: &History) -> Option<Broken> {
    let broken = |oracle: &'static str| move |how: String| Broken { oracle, how };
    None.or_else(|| endings::answered_in_time(history).map(broken("liveness")))
        .or_else(|| endings::recovered(history).map(broken("liveness")))
        .or_else(|| bound::admitted_too_much(history).map(broken("bound")))
        .or_else(|| conservation::units_lost_or_made(history).map(broken("conservation")))
        .or_else(|| linear::admitted_beyond(history).map(broken("admissions")))
        .or_else(|| linear::unexplained(history).map(broken("linearizability")))
        .or_else(|| endings::left_behind(history).map(broken("leaks")))
}

impl History {
    fn action(&self, event: &Event) -> &Action {
        &self.plan.steps[event.step].action
    }
}

/// What was granted of a line in this call, if anything; not what is held.
fn granted(event: &Event, action: &Action, line: &Line) -> u64 {
    let Outcome::Answers(answers) = &event.outcome else { return 0 };
    let lines = match action {
        Action::Check(lines) => lines.as_slice(),
        Action::CheckWithin(line, _) => std::slice::from_ref(line),
        _ => return 0,
    };
    // All of them or none.
    if answers.iter().any(|answer| !answer.decision.is_allowed()) {
        return 0;
    }
    lines.iter().filter(|one| *one == line).map(|one| one.cost).sum()
}

/// The lines of a call.
fn lines_of(action: &Action) -> &[Line] {
    match action {
        Action::Check(lines) | Action::Reserve(_, lines, _) => lines,
        Action::CheckWithin(line, _) | Action::Peek(line) | Action::Debit(line) => {
            std::slice::from_ref(line)
        }
        Action::Settle(..) => &[],
    }
}
