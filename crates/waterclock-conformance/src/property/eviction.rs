//! What forgetting a key for lack of room admits: half a capacity each time, and no more.

use waterclock::{Cost, Policy, Timestamp};
use waterclock_core::store::{Decide as _, Logs, State, View};

use super::PropertyResult;
use super::bound::{admitted, bound, shortest_window};
use crate::case::{Case, Event};
use crate::family::limit_of;
use crate::reference::{Mode, Verb};
use crate::subject::policy;

/// Whether a state may be forgotten.
pub type MayForget = fn(&Policy, View<'_>, Timestamp) -> bool;

/// As stores decide it.
pub fn half_fresh(policy: &Policy, state: View<'_>, now: Timestamp) -> bool {
    policy.half_fresh_in(state, now).is_zero()
}

/// In any window, a key that is forgotten whenever that is allowed is admitted its bound, and half a capacity more for
/// each time.
pub fn forgetting_costs_half(case: &Case, may_forget: MayForget) -> PropertyResult {
    let [limit] = &case.spec.limits[..] else { return Ok(false) };
    if case.spec.shadow || limit.shadow || case.spec.mode == Mode::CountRefusals {
        return Ok(false);
    }
    let Some(capacity) = limit_of(&limit.algorithm) else { return Ok(false) };
    let checks = case.trace.iter().filter(|event| event.verb == Verb::Check);
    let trace: Vec<Event> = checks.copied().collect();
    let calls = run(&policy(&case.spec), &trace, may_forget);
    let length = shortest_window(&limit.algorithm);
    let largest = trace.iter().map(|event| event.cost).max().unwrap_or(0);
    let bound = bound(&limit.algorithm, length, largest);
    for (i, first) in calls.iter().enumerate() {
        let inside = calls[i..].iter().take_while(|call| call.at_ns < first.at_ns + length);
        let (mut units, mut times) = (0, 0);
        for (n, call) in inside.enumerate() {
            // What happened before the window's first admission is before the window.
            times += u128::from(n > 0 && call.was_forgotten);
            units += admitted(&limit.algorithm, call.granted);
        }
        if units > bound + times * u128::from(capacity / 2) {
            return Err(format!(
                "{units} admitted in {length} ns from call {i}, forgotten {times} times, bound {bound}"
            ));
        }
    }
    Ok(calls.iter().any(|call| call.was_forgotten))
}

struct Call {
    at_ns: u64,
    granted: u64,
    was_forgotten: bool,
}

fn run(policy: &Policy, trace: &[Event], may_forget: MayForget) -> Vec<Call> {
    let (mut words, mut logs) = (vec![0; policy.words()], Logs::new());
    let call = |event: &Event| {
        let (now, cost) = (Timestamp::from_nanos(event.at_ns), Cost::from(event.cost));
        let mut state = State::new(&mut words, &mut logs);
        let is_fresh = policy.fresh_in(state.view(), now).is_zero();
        let was_forgotten = !is_fresh && may_forget(policy, state.view(), now);
        if was_forgotten {
            policy.clear(&mut state);
        }
        let verdict = policy.judge(state.view(), now, &cost);
        policy.record(&mut state, now, &cost, verdict);
        let granted = policy.answer(state.view(), now, &cost, verdict).granted();
        Call { at_ns: event.at_ns, granted, was_forgotten }
    };
    trace.iter().map(call).collect()
}
