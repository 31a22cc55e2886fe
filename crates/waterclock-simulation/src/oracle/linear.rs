//! Linearizability: the answers about one key are those of the sequential core in some order, at instants at which a
//! server touched that key while each call lasted.

use waterclock::{OnStoreError, Policy, Source, Verb};

use super::lines_of;
use super::search::{Call, Search, Told};
use crate::plan::{Action, FaultKind, HELD, KEYS, NAMES, policy};
use crate::run::{Event, History, Outcome};
use crate::server::Execution;

/// The policies whose answers are compared number by number.
const SIMPLE: [usize; 2] = [0, 1];
/// The most calls that are put in order.
const MOST_CALLS: usize = 24;

/// How the answers about a key are those of no order.
pub(super) fn unexplained(history: &History) -> Option<String> {
    let keys = SIMPLE.iter().flat_map(|number| (0..KEYS.len()).map(move |key| (*number, key)));
    keys.into_iter().find_map(|(number, key)| {
        // What a share admits is charged later, by calls of its own.
        if history.plan.serving[number].on_store_error != OnStoreError::Deny {
            return None;
        }
        let calls = all_calls(history, number, key)?;
        is_unexplained(history, (number, key), &calls).then(|| {
            format!(
                "no order of the calls explains the answers about {}/{}",
                NAMES[number], KEYS[key]
            )
        })
    })
}

/// How more was admitted by the store than it can have admitted in any order: without a lease, nothing beyond the limit.
pub(super) fn admitted_beyond(history: &History) -> Option<String> {
    let keys = (0..HELD).flat_map(|number| (0..KEYS.len()).map(move |key| (number, key)));
    keys.into_iter().find_map(|(number, key)| {
        let calls = admitted_calls(history, number, key)?;
        is_unexplained(history, (number, key), &calls).then(|| {
            format!(
                "no order of the calls admits what was admitted of {}/{}",
                NAMES[number], KEYS[key]
            )
        })
    })
}

fn is_unexplained(history: &History, (number, key): (usize, usize), calls: &[Call<'_>]) -> bool {
    // A refusal re-dates, too.
    let partial = calls.iter().any(|call| matches!(call.told, Told::Admitted));
    let debits = calls.iter().any(|call| call.verb == Verb::Debit);
    let differs = |kind: &FaultKind| match kind {
        FaultKind::Flushed(_) | FaultKind::Restarted(_, false) | FaultKind::Failover => true,
        // What is executed is in order for each server, not for all of them.
        FaultKind::SlotMoves(of, _) => *of == key,
        // Of a clock that goes back, the core knows what becomes of buckets without debts.
        FaultKind::ClockStep(_, ms) => *ms < 0 && (debits || partial || !SIMPLE.contains(&number)),
        _ => false,
    };
    let is_leased = history.plan.serving[number].lease.is_some();
    if is_leased
        || calls.len() > MOST_CALLS
        || history.plan.faults.iter().any(|fault| differs(&fault.kind))
    {
        return false;
    }
    let record = &history.records[number][key];
    let executed = history.executed.iter().flatten().filter(|one| one.keys.contains(record));
    let executed: Vec<&Execution> = executed.collect();
    let policy: Policy = policy(number);
    Search::new(&policy, calls, &executed).explains_all() == Some(false)
}

/// The calls about a key; none if some are not put in order here.
fn all_calls(history: &History, number: usize, key: usize) -> Option<Vec<Call<'_>>> {
    let mut calls = Vec::new();
    for (event, action, cost) in about(history, number, key) {
        let verb = match action {
            Action::Check(lines) if lines.len() == 1 => Verb::Check,
            Action::CheckWithin(..) => Verb::Check,
            Action::Peek(_) => Verb::Peek,
            Action::Debit(_) => Verb::Debit,
            _ => return None,
        };
        let told = match &event.outcome {
            Outcome::Answers(answers) => match answers[0].source {
                Source::Authoritative => Told::Answer(&answers[0]),
                // It says no more than that a refusal from before still holds.
                _ => continue,
            },
            Outcome::Failed(error) if !error.may_have_charged() => continue,
            _ => Told::Nothing,
        };
        calls.push(call(event, verb, cost, told));
    }
    Some(calls)
}

/// The calls about a key that the store admitted; none if units of it may be given back.
fn admitted_calls(history: &History, number: usize, key: usize) -> Option<Vec<Call<'_>>> {
    let mut calls = Vec::new();
    for (event, action, cost) in about(history, number, key) {
        let Outcome::Answers(answers) = &event.outcome else {
            if let Action::Reserve(..) = action {
                return None;
            }
            continue;
        };
        let is_made = answers
            .iter()
            .all(|answer| answer.source == Source::Authoritative && answer.decision.is_allowed());
        match action {
            Action::Check(_) | Action::CheckWithin(..) if is_made => {
                calls.push(call(event, Verb::Check, cost, Told::Admitted));
            }
            _ => {}
        }
    }
    Some(calls)
}

fn call<'h>(event: &Event, verb: Verb, cost: u64, told: Told<'h>) -> Call<'h> {
    Call { verb, cost, called_ms: event.called_ms, returned_ms: event.returned_ms, told }
}

fn about(
    history: &History,
    number: usize,
    key: usize,
) -> impl Iterator<Item = (&Event, &Action, u64)> {
    history.events.iter().filter_map(move |event| {
        let action = history.action(event);
        let line = lines_of(action).iter().find(|one| (one.policy, one.key) == (number, key))?;
        Some((event, action, line.cost))
    })
}
