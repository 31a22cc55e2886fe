//! Lines: who came first passes first, nobody is overtaken, and nobody waits for what is there.

use super::super::plan::{Action, HELD, KEYS, NAMES};
use super::super::run::{History, Noted, Outcome};
use super::{is_granted, is_of_life};

/// The longest time in which a key becomes fresh that nothing is asked of.
const FRESH_MS: u64 = 500;
const SLACK_MS: u64 = 10;

/// A caller in line, or about to be.
#[derive(Clone, Copy, Debug)]
struct Wait {
    call: usize,
    policy: usize,
    key: usize,
    called_ms: u64,
}

/// How somebody passed before a caller who was in line.
pub(super) fn out_of_turn(history: &History) -> Option<String> {
    let mut open: Vec<Wait> = Vec::new();
    // Those that were granted at this instant; those before them may be so, too, at the same.
    let mut granted: Vec<(u64, Wait)> = Vec::new();
    for (at_ms, noted) in &history.noted {
        let overtaken = granted.iter().find_map(|(then, wait)| {
            let is_before = |other: &&Wait| {
                (other.policy, other.key) == (wait.policy, wait.key)
                    && other.called_ms < wait.called_ms
            };
            (at_ms > then).then(|| open.iter().find(is_before).map(|other| (*wait, *other)))?
        });
        if let Some((wait, other)) = overtaken {
            return Some(format!("#{} passes before #{}, which came first", wait.call, other.call));
        }
        granted.retain(|(then, _)| then == at_ms);
        match noted {
            _ if is_of_life(noted) => {
                open.clear();
                granted.clear();
            }
            Noted::Called(call) => {
                if let Action::Wait(line, _) = &history.calls[*call].action {
                    let (policy, key) = (line.policy, line.key);
                    open.push(Wait { call: *call, policy, key, called_ms: *at_ms });
                }
            }
            Noted::Returned(call, outcome) => {
                let action = &history.calls[*call].action;
                let of_line = open.iter().position(|wait| wait.call == *call);
                if let Some(of_line) = of_line {
                    let wait = open.remove(of_line);
                    if is_granted(outcome) {
                        granted.push((*at_ms, wait));
                    }
                    continue;
                }
                let is_new = match action {
                    Action::Check(_) => true,
                    Action::Reserve(reserve) => !reserve.is_own,
                    _ => false,
                };
                let overtakes = |wait: &&Wait| {
                    wait.called_ms < *at_ms && history.at(*call, wait.policy, wait.key).is_some()
                };
                // A caller that leaves at this instant, or has its turn at it, is in line no longer.
                let stays = |wait: &&Wait| {
                    let mut later = history.noted.iter().skip_while(|(then, _)| then < at_ms);
                    !later.any(|(then, noted)| {
                        then == at_ms
                            && (matches!(noted, Noted::Returned(other, _) if *other == wait.call))
                    })
                };
                if is_new
                    && is_granted(outcome)
                    && let Some(wait) = open.iter().filter(overtakes).find(stays)
                {
                    return Some(format!("#{call} {action}: overtakes #{}", wait.call));
                }
            }
            _ => {}
        }
    }
    None
}

/// How a caller waits although nothing has happened to its key for longer than anything takes.
pub(super) fn stuck(history: &History) -> Option<String> {
    let mut open: Vec<Wait> = Vec::new();
    let mut last_ms = [[0; KEYS.len()]; NAMES.len()];
    let mut steps_back = false;
    for (at_ms, noted) in &history.noted {
        let too_long = |wait: &&Wait| {
            at_ms - last_ms[wait.policy][wait.key] > FRESH_MS + SLACK_MS && wait.policy != HELD
        };
        if !steps_back && let Some(wait) = open.iter().find(too_long) {
            let key = KEYS[wait.key];
            return Some(format!("#{} still waits for {}/{key}", wait.call, NAMES[wait.policy]));
        }
        let call = match noted {
            Noted::Called(call) => {
                if let Action::Wait(line, _) = &history.calls[*call].action {
                    let (policy, key) = (line.policy, line.key);
                    open.push(Wait { call: *call, policy, key, called_ms: *at_ms });
                }
                *call
            }
            Noted::Returned(call, outcome) => {
                open.retain(|wait| wait.call != *call);
                if matches!(outcome, Outcome::Unavailable) {
                    continue;
                }
                *call
            }
            Noted::ReloadBegan(_) | Noted::ReloadEnded(_) => {
                last_ms = [[*at_ms; KEYS.len()]; NAMES.len()];
                continue;
            }
            Noted::ClockStepped(ms) => {
                steps_back |= *ms < 0;
                continue;
            }
            Noted::Started(..) => {
                last_ms = [[*at_ms; KEYS.len()]; NAMES.len()];
                steps_back = false;
                open.clear();
                continue;
            }
            _ if is_of_life(noted) => {
                open.clear();
                continue;
            }
            _ => continue,
        };
        for line in history.lines(call) {
            last_ms[line.policy][line.key] = *at_ms;
        }
        // Which keys it was about does not matter.
        if let Action::Settle(..) = history.calls[call].action {
            last_ms = [[*at_ms; KEYS.len()]; NAMES.len()];
        }
    }
    None
}
