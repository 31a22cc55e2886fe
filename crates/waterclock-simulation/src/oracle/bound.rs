//! Over-admission: what callers were granted, by their own logs alone, against the published bound of the mode.

use std::time::Duration;

use waterclock::{Limit, OnStoreError, Source};
use waterclock_core::Algorithm;

use super::{granted, lines_of};
use crate::plan::{Action, FaultKind, HELD, KEYS, NAMES, policy};
use crate::run::{Event, History, Outcome};

/// Units that a caller was granted, and when.
struct Granted {
    units: u64,
    called_ms: u64,
    returned_ms: u64,
    /// The process, if its share decided.
    share: Option<usize>,
}

/// How more was admitted of a key than its mode's bound allows.
pub(super) fn admitted_too_much(history: &History) -> Option<String> {
    (0..HELD).find_map(|number| (0..KEYS.len()).find_map(|key| check(history, number, key)))
}

fn check(history: &History, number: usize, key: usize) -> Option<String> {
    let all = grants(history, number, key);
    let is_local = all.iter().any(|one| one.share.is_some());
    let policy = policy(number);
    let limit = &policy.limits()[0];
    let nodes = u64::try_from(history.plan.nodes).unwrap_or(1);
    let share = policy.share(nodes).ok()?.policy;
    let serving = history.plan.serving[number];
    if is_local && serving.on_store_error == OnStoreError::Deny {
        return Some(format!("{} is served locally, and must not be", NAMES[number]));
    }
    for (i, first) in all.iter().enumerate() {
        let mut shares: Vec<usize> = Vec::new();
        let mut units = 0;
        let mut last_ms = first.returned_ms;
        for (j, one) in all.iter().enumerate() {
            if one.called_ms < first.called_ms || (one.called_ms == first.called_ms && j < i) {
                continue;
            }
            units += one.units;
            last_ms = last_ms.max(one.returned_ms);
            shares.extend(one.share);
            shares.sort_unstable();
            shares.dedup();
            // Both ends count.
            let window = first.called_ms..last_ms + 1;
            let most = allowed(history, limit, number, key, &window)
                + share_of(&share.limits()[0], &window) * shares.len() as u64;
            if units > most {
                return Some(format!(
                    "{units} units of {}/{} were granted between {} ms and {} ms, and {most} are the most",
                    NAMES[number], KEYS[key], window.start, window.end
                ));
            }
        }
    }
    None
}

/// In order of calls.
fn grants(history: &History, number: usize, key: usize) -> Vec<Granted> {
    let of = |event: &Event| {
        let action = history.action(event);
        let line = lines_of(action).iter().find(|line| (line.policy, line.key) == (number, key))?;
        let source = match &event.outcome {
            Outcome::Answers(answers) => answers.first()?.source,
            Outcome::Reserved(reserved) => reserved.answers.first()?.source,
            _ => return None,
        };
        // What is granted by a policy that allows all is not counted.
        if source == Source::Policy {
            return None;
        }
        let share = (source == Source::Local).then_some(event.process);
        let units = granted(event, action, line);
        let (called_ms, returned_ms) = (event.called_ms, event.returned_ms);
        (units > 0).then_some(Granted { units, called_ms, returned_ms, share })
    };
    let mut all: Vec<Granted> = history.events.iter().filter_map(of).collect();
    all.sort_by_key(|one| one.called_ms);
    all
}

fn share_of(limit: &Limit, window: &std::ops::Range<u64>) -> u64 {
    let length = Duration::from_millis(window.end - window.start);
    limit.most_within(length, 3).unwrap_or(u64::MAX / 4)
}

/// How long nodes call a primary that was replaced, if they reach a sentinel.
const LEAVES_WITHIN_MS: u64 = 1_200;

/// How long sentinels may be out of reach, or answer late.
fn delays_ms(history: &History) -> u64 {
    let is_of_network = |kind: &FaultKind| {
        matches!(kind, FaultKind::Cut { .. } | FaultKind::Slow(_) | FaultKind::Lossy(_))
    };
    let faults = history.plan.faults.iter().filter(|fault| is_of_network(&fault.kind));
    faults.map(|fault| fault.for_ms).sum()
}

/// What the servers may grant in a window: the algorithm's own bound, and what the mode and the faults add.
fn allowed(
    history: &History,
    limit: &Limit,
    number: usize,
    key: usize,
    window: &std::ops::Range<u64>,
) -> u64 {
    let capacity = limit.max_cost().unwrap_or(0);
    let mut length = Duration::from_millis(window.end - window.start);
    let mut extra = 0;
    let is_fixed = matches!(limit.algorithm(), Algorithm::FixedWindow(_));
    let apart_ms = history.plan.clocks_apart_ms();
    let mut step = |forward_ms: u64, is_back: bool| {
        length += Duration::from_millis(forward_ms);
        // A window whose end is passed again ends again.
        extra += capacity * u64::from(is_back && is_fixed);
    };
    for fault in history.plan.faults.iter().filter(|fault| fault.at_ms <= window.end) {
        match fault.kind {
            FaultKind::ClockStep(_, ms) => step(ms.max(0).unsigned_abs(), ms < 0),
            // The clock that counts is another's from now on.
            FaultKind::SlotMoves(of, _) if of == key => step(apart_ms, true),
            FaultKind::Failover => {
                step(apart_ms, true);
                if history.plan.loses_writes() {
                    step(LEAVES_WITHIN_MS + delays_ms(history), false);
                }
            }
            _ => {}
        }
    }
    extra += capacity * history.plan.losses();
    let serving = history.plan.serving[number];
    if let Some(waterclock::Lease::Units { size, ttl }) = serving.lease {
        // What was debited before the window and is spent in it.
        let processes = history.plan.nodes as u64
            + history.plan.faults.iter().filter(|f| matches!(f.kind, FaultKind::Crash(_))).count()
                as u64;
        let by_time = share_of(limit, &(0..u64::try_from(ttl.as_millis()).unwrap_or(0)));
        extra += (processes * size).min(by_time);
    }
    // What is given back of reservations may be charged again.
    for event in &history.events {
        if let Action::Reserve(_, lines, _) = history.action(event) {
            let of_key = lines.iter().filter(|line| (line.policy, line.key) == (number, key));
            extra += of_key.map(|line| line.cost).sum::<u64>();
        }
    }
    limit.most_within(length, 3).unwrap_or(u64::MAX / 4) + extra
}
