//! A history in words.

use std::fmt::Write as _;

use waterclock::Answer;

use crate::run::{Event, History, Outcome};
use crate::server::Execution;

impl History {
    /// All of it as text, the same for the same seed in every process.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("seed {}\n", self.plan.seed);
        for event in &self.events {
            let Event { step, process, called_ms, returned_ms, outcome } = event;
            let action = &self.plan.steps[*step].action;
            _ = writeln!(
                text,
                "{called_ms:>6}–{returned_ms} ms  process {process} {action}: {}",
                told(outcome)
            );
        }
        for (server, executed) in self.executed.iter().enumerate() {
            for Execution { at_ms, now_us, keys, .. } in executed {
                let keys: Vec<_> = keys.iter().map(|key| String::from_utf8_lossy(key)).collect();
                _ = writeln!(
                    text,
                    "{at_ms:>6} ms  server {server} at {now_us}: {}",
                    keys.join(" ")
                );
            }
        }
        _ = writeln!(text, "{:?}", self.ending);
        text
    }
}

/// In plain words.
#[must_use]
pub fn told(outcome: &Outcome) -> String {
    let one = |answer: &Answer| {
        let decision = &answer.decision;
        let verdict = if decision.is_allowed() { "allowed" } else { "refused" };
        let left = decision.remaining().map_or(String::new(), |left| format!(", {left} left"));
        let wait = decision.retry_after().filter(|wait| !wait.is_zero());
        let wait = wait.map_or(String::new(), |wait| format!(", retry in {wait:?}"));
        format!("{verdict} ({}{left}{wait})", answer.source.name())
    };
    let all = |answers: &[Answer]| answers.iter().map(one).collect::<Vec<_>>().join("; ");
    match outcome {
        Outcome::Answers(answers) => all(answers),
        Outcome::Reserved(reserved) => {
            let held = if reserved.id.is_some() { "held" } else { "not held" };
            format!("{held}: {}", all(&reserved.answers))
        }
        Outcome::Settled(settled) => format!("settled: {settled:?}"),
        Outcome::Failed(error) if error.may_have_charged() => {
            format!("error ({error}), may have charged")
        }
        Outcome::Failed(error) => format!("error ({error})"),
        Outcome::Left => "the caller left".into(),
    }
}
