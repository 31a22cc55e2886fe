//! Linearizability: the answers about one key are those of the sequential core in some order, at instants at which a
//! server touched that key while each call lasted.

use std::collections::HashSet;

use waterclock::{Answer, Cost, OnStoreError, Policy, Source, Timestamp, Verb};
use waterclock_core::store::{Decide as _, Logs, State, View};

use super::lines_of;
use crate::plan::{Action, FaultKind, KEYS, NAMES, policy};
use crate::run::{History, Outcome};
use crate::server::Execution;

/// The policies whose state is one word.
const SIMPLE: [usize; 2] = [0, 1];
/// The most calls that are put in order.
const MOST_CALLS: usize = 24;
/// The most states that are tried for one key. What is not decided by then is left undecided.
const MOST_TRIED: usize = 20_000;

/// A call about the key.
struct Call<'h> {
    verb: Verb,
    cost: u64,
    called_ms: u64,
    returned_ms: u64,
    /// None if nobody knows whether it was made.
    told: Option<&'h Answer>,
}

/// How the answers about a key are those of no order.
pub(super) fn unexplained(history: &History) -> Option<String> {
    SIMPLE.iter().find_map(|number| {
        (0..KEYS.len()).find_map(|key| {
            is_unexplained(history, *number, key)
                .then(|| format!("no order of the calls explains the answers about {}/{}", NAMES[*number], KEYS[key]))
        })
    })
}

fn is_unexplained(history: &History, number: usize, key: usize) -> bool {
    let serving = history.plan.serving[number];
    // What a share admits is charged later, by calls of its own.
    if serving.on_store_error != OnStoreError::Deny || serving.lease.is_some() {
        return false;
    }
    let differs = |kind: &FaultKind| match kind {
        FaultKind::Flushed(_) | FaultKind::Restarted(_, false) => true,
        // The core's time does not go back.
        FaultKind::ClockStep(_, ms) => *ms < 0,
        _ => false,
    };
    if history.plan.faults.iter().any(|fault| differs(&fault.kind)) {
        return false;
    }
    let Some(calls) = calls(history, number, key) else { return false };
    if calls.len() > MOST_CALLS {
        return false;
    }
    let record = &history.records[number][key];
    let executed = history.executed.iter().flatten().filter(|one| one.keys.contains(record));
    let executed: Vec<&Execution> = executed.collect();
    let policy = policy(number);
    let mut search = Search { policy: &policy, calls: &calls, executed: &executed, tried: HashSet::new() };
    search.explains(0, 0, vec![0; policy.words()]) == Some(false)
}

/// None if calls are about the key that are not put in order here.
fn calls(history: &History, number: usize, key: usize) -> Option<Vec<Call<'_>>> {
    let mut calls = Vec::new();
    for event in &history.events {
        let action = history.action(event);
        let Some(line) = lines_of(action).iter().find(|one| (one.policy, one.key) == (number, key)) else {
            continue;
        };
        let verb = match action {
            Action::Check(lines) if lines.len() == 1 => Verb::Check,
            Action::CheckWithin(..) => Verb::Check,
            Action::Peek(_) => Verb::Peek,
            Action::Debit(_) => Verb::Debit,
            _ => return None,
        };
        let told = match &event.outcome {
            Outcome::Answers(answers) => match answers[0].source {
                Source::Authoritative => Some(&answers[0]),
                // It says no more than that a refusal from before still holds.
                _ => continue,
            },
            Outcome::Failed(error) if !error.may_have_charged() => continue,
            _ => None,
        };
        let (called_ms, returned_ms) = (event.called_ms, event.returned_ms);
        calls.push(Call { verb, cost: line.cost, called_ms, returned_ms, told });
    }
    Some(calls)
}

struct Search<'s> {
    policy: &'s Policy,
    calls: &'s [Call<'s>],
    executed: &'s [&'s Execution],
    tried: HashSet<(usize, u32, Vec<u64>)>,
}

impl Search<'_> {
    /// Whether the calls that are not yet `done` can be explained from an execution on; none if that takes too long.
    fn explains(&mut self, at: usize, done: u32, words: Vec<u64>) -> Option<bool> {
        let all_told = || self.calls.iter().enumerate().all(|(i, call)| done >> i & 1 == 1 || call.told.is_none());
        if all_told() {
            return Some(true);
        }
        let Some(now) = self.executed.get(at).copied() else { return Some(false) };
        if !self.tried.insert((at, done, words.clone())) {
            return Some(false);
        }
        if self.tried.len() > MOST_TRIED {
            return None;
        }
        let mut is_undecided = false;
        for (i, call) in self.calls.iter().enumerate() {
            let is_possible = done >> i & 1 == 0
                && call.called_ms <= now.at_ms
                && (call.told.is_none() || now.at_ms <= call.returned_ms);
            if !is_possible {
                continue;
            }
            let mut after = words.clone();
            let answer = apply(self.policy, &mut after, now.now_us, call);
            if call.told.is_some_and(|told| told.decision != answer.decision) {
                continue;
            }
            match self.explains(at, done | 1 << i, after) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => is_undecided = true,
            }
        }
        // A call that was told something has to be explained before it returned.
        let next = self.executed.get(at + 1);
        let is_late = self.calls.iter().enumerate().any(|(i, call)| {
            let is_over = next.is_none_or(|next| next.at_ms > call.returned_ms);
            done >> i & 1 == 0 && call.told.is_some() && is_over
        });
        if !is_late {
            match self.explains(at + 1, done, words) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => is_undecided = true,
            }
        }
        (!is_undecided).then_some(false)
    }
}

/// The sequential core.
fn apply(policy: &Policy, words: &mut [u64], now_us: u64, call: &Call<'_>) -> Answer {
    let (now, cost) = (Timestamp::from_micros(now_us), Cost::from(call.cost));
    let mut logs = Logs::new();
    policy.redate(&mut State::new(words, &mut logs), now);
    call.verb.change(policy, &mut State::new(words, &mut logs), now, &cost);
    let verdict = policy.judge(View::new(words, &logs), now, &cost);
    if call.verb == Verb::Check {
        policy.record(&mut State::new(words, &mut logs), now, &cost, verdict);
    }
    Answer::of(policy, View::new(words, &logs), now, &cost, verdict)
}
