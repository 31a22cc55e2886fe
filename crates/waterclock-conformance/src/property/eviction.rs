//! What it costs to save memory: forgetting a key admits half a capacity each time, and making its logs coarser nothing.

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

/// Makes the logs of a key take less memory.
pub type Coarsen = fn(&Policy, &mut State<'_>);

/// As stores decide it.
pub fn half_fresh(policy: &Policy, state: View<'_>, now: Timestamp) -> bool {
    policy.half_fresh_in(state, now).is_zero()
}

/// In any window, a key that is forgotten whenever that is allowed is admitted its bound, and half a capacity more for
/// each time.
pub fn forgetting_costs_half(case: &Case, may_forget: MayForget) -> PropertyResult {
    if case.spec.mode == Mode::CountRefusals {
        return Ok(false);
    }
    let calls = within_bound(case, |policy, state, now| {
        let is_fresh = policy.fresh_in(state.view(), now).is_zero();
        let forgets = !is_fresh && may_forget(policy, state.view(), now);
        if forgets {
            policy.clear(state);
        }
        forgets
    })?;
    Ok(calls.iter().any(|call| call.was_forgotten))
}

/// In any window, a key whose logs get coarser before every call is admitted its bound, and no more.
pub fn coarser_admits_no_more(case: &Case, coarsen: Coarsen) -> PropertyResult {
    if !policy(&case.spec).keeps_logs() {
        return Ok(false);
    }
    let calls = within_bound(case, |policy, state, _| {
        coarsen(policy, state);
        false
    })?;
    Ok(calls.iter().filter(|call| call.granted > 0).count() > 2)
}

struct Call {
    at_ns: u64,
    granted: u64,
    was_forgotten: bool,
}

/// Runs the checks of a case with `before` before each, which says whether it forgot the key. The error names a window
/// in which more was admitted than the bound and half a capacity for each time.
fn within_bound(
    case: &Case,
    before: impl FnMut(&Policy, &mut State<'_>, Timestamp) -> bool,
) -> Result<Vec<Call>, String> {
    let [limit] = &case.spec.limits[..] else { return Ok(Vec::new()) };
    if case.spec.shadow || limit.shadow {
        return Ok(Vec::new());
    }
    let Some(capacity) = limit_of(&limit.algorithm) else { return Ok(Vec::new()) };
    let checks = case.trace.iter().filter(|event| event.verb == Verb::Check);
    let trace: Vec<Event> = checks.copied().collect();
    let calls = run(&policy(&case.spec), &trace, before);
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
    Ok(calls)
}

fn run(
    policy: &Policy,
    trace: &[Event],
    mut before: impl FnMut(&Policy, &mut State<'_>, Timestamp) -> bool,
) -> Vec<Call> {
    let (mut words, mut logs) = (vec![0; policy.words()], Logs::new());
    let call = |event: &Event| {
        let (now, cost) = (Timestamp::from_nanos(event.at_ns), Cost::from(event.cost));
        let mut state = State::new(&mut words, &mut logs);
        let was_forgotten = before(policy, &mut state, now);
        let verdict = policy.judge(state.view(), now, &cost);
        policy.record(&mut state, now, &cost, verdict);
        let answer = policy.answer(state.view(), now, &cost, verdict);
        // A recorded refusal is not an admission.
        let is_charged = policy.mode() != waterclock::Mode::CountRefusals || answer.is_allowed();
        let granted = if is_charged { answer.granted() } else { 0 };
        Call { at_ns: event.at_ns, granted, was_forgotten }
    };
    trace.iter().map(call).collect()
}
