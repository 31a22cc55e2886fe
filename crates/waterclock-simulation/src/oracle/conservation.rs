//! Conservation: what the store was charged is what callers were told, and what nobody can know.
//!
//! The policy refills so slowly that nothing drains while a history lasts, so what is used of a key at the end is the sum
//! of what was charged. A call without an answer counts as a range.

use std::collections::BTreeMap;

use waterclock::{Lease, Source};

use super::{granted, lines_of};
use crate::plan::{Action, FaultKind, HELD_FOR, KEYS, Line, NAMES, QUOTA};
use crate::run::{History, Outcome};

/// The most that is committed of a line.
const MOST_USED: u64 = 4;

/// From least to most.
#[derive(Clone, Copy, Debug, Default)]
struct Between(u64, u64);

impl Between {
    fn add(&mut self, least: u64, most: u64) {
        self.0 += least;
        self.1 += most;
    }
}

/// What is known of a reservation.
#[derive(Debug, Default)]
struct Held {
    lines: Vec<Line>,
    releases: bool,
    is_held: bool,
    may_be_held: bool,
    /// How often it was asked for so late that the one before may have been over.
    over: u64,
    first_ms: u64,
    /// What was used of each line, if it is known how it was settled.
    used: Option<Vec<u64>>,
    /// How it may have been settled.
    may_be_used: Vec<Vec<u64>>,
}

/// How units of a key were lost or made.
pub(super) fn units_lost_or_made(history: &History) -> Option<String> {
    let loses_state = history.plan.losses() > 0;
    let held = reservations(history);
    (0..KEYS.len()).find_map(|key| {
        let mut used = Between::default();
        charges(history, key, &mut used);
        for held in held.values() {
            settled(held, key, &mut used);
            if history.plan.loses_writes() {
                // How it was settled, or that it was, may be lost.
                let of_key = held.lines.iter().filter(|line| (line.policy, line.key) == (QUOTA, key));
                used.add(0, of_key.map(|line| line.cost.max(MOST_USED)).sum());
            }
        }
        leases(history, key, &mut used);
        let least = if loses_state { 0 } else { used.0.min(24) };
        let found = history.ending.used[key];
        (found < least || found > used.1).then(|| {
            let Between(_, most) = used;
            format!(
                "{found} units of {}/{} are used at the end, and what callers were told makes {least} to {most}",
                NAMES[QUOTA], KEYS[key]
            )
        })
    })
}

fn charges(history: &History, key: usize, used: &mut Between) {
    for event in &history.events {
        let action = history.action(event);
        let of_key = |line: &&Line| (line.policy, line.key) == (QUOTA, key);
        let Some(line) = lines_of(action).iter().find(of_key) else { continue };
        match (action, &event.outcome) {
            (Action::Peek(_) | Action::Reserve(..), _) => {}
            (_, Outcome::Answers(answers)) => {
                let units = match action {
                    Action::Debit(line) => line.cost,
                    action => granted(event, action, line),
                };
                match answers.first().map(|answer| answer.source) {
                    Some(Source::Authoritative) => used.add(units, units),
                    // The store is charged for it later, as far as there is room; and the call may have been made.
                    Some(Source::Local) => used.add(0, 2 * line.cost),
                    // Counted with the leases.
                    _ => {}
                }
            }
            (_, Outcome::Failed(error)) if !error.may_have_charged() => {}
            _ => used.add(0, line.cost),
        }
    }
}

/// Whether the clock that counts for a key may show another time than before.
fn steps(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::ClockStep(..) | FaultKind::SlotMoves(..) | FaultKind::Failover)
}

fn reservations(history: &History) -> BTreeMap<u32, Held> {
    let mut all: BTreeMap<u32, Held> = BTreeMap::new();
    // A server that lost its keys, or whose clock steps, may not know a reservation any more.
    let forgets =
        history.plan.losses() > 0 || history.plan.faults.iter().any(|fault| steps(&fault.kind));
    // How much later than its caller has left a call may still be made.
    let longest_ms = 500 + history.plan.faults.iter().map(|fault| fault.for_ms).sum::<u64>();
    for event in &history.events {
        match history.action(event) {
            Action::Reserve(id, lines, releases) => {
                let held = all.entry(*id).or_default();
                if held.lines.is_empty() {
                    held.first_ms = event.called_ms;
                }
                let again = !held.lines.is_empty();
                let held_for = u64::try_from(HELD_FOR.as_millis()).unwrap_or(0);
                let is_answered = matches!(event.outcome, Outcome::Reserved(_));
                let latest_ms = event.returned_ms + if is_answered { 0 } else { longest_ms };
                if latest_ms.abs_diff(held.first_ms) > held_for - 1 || again && forgets {
                    held.over += 1;
                }
                match &event.outcome {
                    Outcome::Reserved(reserved) if reserved.id.is_some() => held.is_held = true,
                    Outcome::Failed(error) if !error.may_have_charged() => continue,
                    Outcome::Reserved(_) => continue,
                    _ => held.may_be_held = true,
                }
                held.first_ms = held.first_ms.min(event.called_ms);
                (held.lines, held.releases) = (lines.clone(), *releases);
            }
            Action::Settle(id, used) => {
                let held = all.entry(*id).or_default();
                match &event.outcome {
                    Outcome::Settled(settled) => {
                        held.used = Some(
                            settled.used.iter().map(|used| used.plain().unwrap_or(0)).collect(),
                        );
                        if settled.is_cancelled {
                            held.used = Some(settled.held.iter().map(|_| 0).collect());
                        }
                    }
                    Outcome::Failed(error) if error.failure().is_none() => {}
                    _ => held.may_be_used.push(used.clone().unwrap_or_default()),
                }
            }
            _ => {}
        }
    }
    all
}

fn settled(held: &Held, key: usize, sum: &mut Between) {
    for (i, line) in held.lines.iter().enumerate() {
        if (line.policy, line.key) != (QUOTA, key) {
            continue;
        }
        if held.over > 0 {
            // The name may have been given several times, and settled under any of them.
            sum.add(0, (held.over + 1) * line.cost.max(MOST_USED));
            continue;
        }
        let mut least = if held.releases { 0 } else { line.cost };
        let mut most = least;
        match &held.used {
            Some(used) => (least, most) = (used[i], used[i]),
            None => {
                for used in &held.may_be_used {
                    let used = used.get(i).copied().unwrap_or(0);
                    (least, most) = (least.min(used), most.max(used));
                }
            }
        }
        if !held.is_held && held.used.is_none() {
            least = 0;
        }
        if held.is_held || held.may_be_held || held.used.is_some() {
            sum.add(least, most);
        }
    }
}

/// What was spent of leases, and what may be lost of them: a process that ends, or a call without an answer, leaves units
/// charged that nobody spends.
fn leases(history: &History, key: usize, used: &mut Between) {
    let Some(Lease::Units { size, .. }) = history.plan.serving[QUOTA].lease else { return };
    let mut calls = 0;
    for event in &history.events {
        let action = history.action(event);
        let of_key = |line: &&Line| (line.policy, line.key) == (QUOTA, key);
        let Some(line) = lines_of(action).iter().find(of_key) else { continue };
        calls += 1;
        if let Outcome::Answers(answers) = &event.outcome
            && answers.first().is_some_and(|answer| answer.source == Source::Lease)
        {
            let units = granted(event, action, line);
            used.add(units, units);
        }
    }
    let is_quiet = history.plan.faults.is_empty()
        && history.plan.steps.iter().all(|step| {
            step.leaves_after.is_none() && !matches!(step.action, Action::CheckWithin(..))
        });
    if !is_quiet {
        used.add(0, calls * (size + 3));
    }
}
