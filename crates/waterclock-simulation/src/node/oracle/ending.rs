//! Liveness, and what is left behind.

use std::collections::BTreeMap;

use super::super::plan::{Action, HELD, KEYS, What, capacity};
use super::super::run::{History, Noted, Outcome};

/// What an answer may take beyond its time.
const SLACK_MS: u64 = 5;

/// How a call was not answered in its time, or not at all.
pub(super) fn answered_in_time(history: &History) -> Option<String> {
    let mut open: BTreeMap<usize, u64> = BTreeMap::new();
    for (at_ms, noted) in &history.noted {
        match noted {
            Noted::Called(call) => _ = open.insert(*call, *at_ms),
            Noted::Returned(call, _) => {
                let Some(called_ms) = open.remove(call) else { continue };
                let took = at_ms - called_ms;
                let action = &history.calls[*call].action;
                let most = if let Action::Wait(_, ms) = action { *ms } else { 0 };
                if took > most + SLACK_MS {
                    return Some(format!("#{call} {action}: answered after {took} ms"));
                }
            }
            Noted::Crashed(_) => open.clear(),
            Noted::Stopped | Noted::Quiet(..) => {
                if let Some((call, _)) = open.first_key_value() {
                    let action = &history.calls[*call].action;
                    return Some(format!("#{call} {action}: never answered"));
                }
            }
            _ => {}
        }
    }
    None
}

/// What did not end, or is held for ever.
pub(super) fn left_behind(history: &History) -> Option<String> {
    let steps_back = |what: &What| match what {
        What::ClockStep(ms) => *ms < 0,
        What::Crash(down) | What::Stop(down) => down.step_ms < 0,
        _ => false,
    };
    // What is held may then be held for longer than anybody looks.
    let lasts = history.plan.steps.iter().any(|step| steps_back(&step.what));
    let mut numbers = history.plan.numbers;
    for (_, noted) in &history.noted {
        match noted {
            Noted::Started(now, _) | Noted::ReloadBegan(Some(now)) => numbers = *now,
            Noted::Quiet(waiting, _) if *waiting > 0 => {
                return Some(format!("{waiting} callers are in line, and nobody waits"));
            }
            Noted::Tasks(tasks) if *tasks > 0 => {
                return Some(format!("{tasks} tasks outlive their server"));
            }
            // Only peeks at the end are about these.
            Noted::Returned(call, Outcome::Replies(told)) if !lasts => {
                let Action::Peek(line) = &history.calls[*call].action else { continue };
                let (free, numbers) = (told[0].remaining, numbers[HELD]);
                let places = numbers.map(|numbers| capacity(HELD, numbers));
                if line.policy == HELD && free != places {
                    return Some(format!(
                        "{free:?} of {places:?} places of held/{} are free at the end",
                        KEYS[line.key]
                    ));
                }
            }
            _ => {}
        }
    }
    None
}
