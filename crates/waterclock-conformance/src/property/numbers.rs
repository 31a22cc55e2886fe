//! P1–P4 and P8: the numbers of an answer are exact.

use super::{PropertyResult, check, has_overdraft, has_shadow, last, pick, then};
use crate::case::{Case, Event};
use crate::reference::{Algorithm, Answer, Mode, Verb};
use crate::subject::Subject;

/// Refused with retry r: the same cost at now + r is admitted.
pub(super) fn honour<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> PropertyResult {
    at_retry(subject, case, answers, 0, true)
}

/// … and one tick earlier it is refused.
pub(super) fn tight<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> PropertyResult {
    at_retry(subject, case, answers, S::TICK_NS, false)
}

fn at_retry<S: Subject>(
    subject: &S,
    case: &Case,
    answers: &[Answer],
    earlier: u64,
    allowed: bool,
) -> PropertyResult {
    let Some(i) = pick(case, |i| ends(&answers[i])) else { return Ok(false) };
    let (event, retry) = (case.trace[i], answers[i].retry_after_ns.unwrap_or(0));
    // Rounded up to what the subject's clock can show.
    let retry = retry.next_multiple_of(S::TICK_NS);
    let later = check(event.at_ns + retry - earlier, event.cost);
    let answer = last(subject, &case.spec, &then(case, i, later));
    if answer.allowed == allowed {
        return Ok(true);
    }
    Err(format!(
        "call {i} ({event:?}) was refused with retry {retry} ns, but {earlier} ns before that the \
         answer was {answer:?}"
    ))
}

/// Admitted, and again after `next_same`: the same cost at that instant is admitted, one tick earlier it is not.
pub(super) fn next_same<S: Subject>(
    subject: &S,
    case: &Case,
    answers: &[Answer],
) -> PropertyResult {
    let is_admitted =
        |i: usize| answers[i].allowed && answers[i].next_same_ns.is_some_and(|wait| wait < 1 << 61);
    let Some(i) = pick(case, is_admitted) else { return Ok(false) };
    let (event, wait) = (case.trace[i], answers[i].next_same_ns.unwrap_or(0));
    let wait = wait.next_multiple_of(S::TICK_NS);
    let allowed_at =
        |at_ns| last(subject, &case.spec, &then(case, i, check(at_ns, event.cost))).allowed;
    if !allowed_at(event.at_ns + wait) {
        return Err(format!("call {i} ({event:?}) was admitted, and {wait} ns later is not"));
    }
    if wait > 0 && allowed_at(event.at_ns + wait - S::TICK_NS) {
        return Err(format!("call {i} ({event:?}) is admitted again before {wait} ns are over"));
    }
    Ok(true)
}

/// Refused, with a wait that a clock can express and a search can find.
fn ends(answer: &Answer) -> bool {
    !answer.allowed && answer.retry_after_ns.is_some_and(|retry| retry > 0 && retry < 1 << 61)
}

/// Cost = remaining is admitted now, remaining + 1 is not.
pub(super) fn remaining<S: Subject>(
    subject: &S,
    case: &Case,
    answers: &[Answer],
) -> PropertyResult {
    if has_overdraft(&case.spec) || case.spec.shadow {
        return Ok(false);
    }
    let Some(i) = pick(case, |i| answers[i].remaining.is_some()) else { return Ok(false) };
    let left = answers[i].remaining.unwrap_or(0);
    let now = |cost| check(case.trace[i].at_ns, cost);
    let (fits, over) = (then(case, i, now(left)), then(case, i, now(left + 1)));
    if !last(subject, &case.spec, &fits).allowed {
        return Err(format!("after call {i}, {left} remain but are not admitted"));
    }
    if last(subject, &case.spec, &over).allowed {
        return Err(format!("after call {i}, {left} remain but one more is admitted"));
    }
    Ok(true)
}

/// At now + reset_after every answer equals a fresh key's at that instant.
pub(super) fn reset<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> PropertyResult {
    // The state of shadow limits is not part of the policy's numbers.
    if has_shadow(&case.spec) {
        return Ok(false);
    }
    let Some(i) = pick(case, |i| answers[i].reset_after_ns < 1 << 61) else { return Ok(false) };
    let wait = answers[i].reset_after_ns.next_multiple_of(S::TICK_NS);
    let at_ns = case.trace[i].at_ns + wait;
    let most = answers[i].limit.unwrap_or(2);
    let probes = [(Verb::Peek, 1), (Verb::Peek, most), (Verb::Check, 1), (Verb::Check, most)];
    let probes = probes.map(|(verb, cost)| Event { at_ns, verb, cost });
    let mut trace = case.trace[..=i].to_vec();
    trace.extend(probes);
    let used = subject.run(&case.spec, &trace, false).split_off(i + 1);
    let fresh = subject.run(&case.spec, &probes, false);
    if used == fresh {
        return Ok(true);
    }
    Err(format!("{wait} ns after call {i} it should be fresh: {used:#?} instead of {fresh:#?}"))
}

/// n at once admitted: n singles at the same instant are admitted too, and leave the same state.
pub(super) fn split<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> PropertyResult {
    let batches_are_events = case.spec.limits.iter().any(|limit| {
        use Algorithm::{ErrorRate, EvenSlots, MinInterval};
        let event =
            matches!(limit.algorithm, EvenSlots { .. } | MinInterval { .. } | ErrorRate { .. });
        event || limit.min_interval_ns.is_some()
    });
    if batches_are_events || has_overdraft(&case.spec) || has_shadow(&case.spec) {
        return Ok(false);
    }
    let whole = answers;
    let is_batch = |i: usize| {
        let event = case.trace[i];
        whole[i].allowed && event.verb == Verb::Check && (2..=64).contains(&event.cost)
    };
    let Some(i) = pick(case, is_batch) else { return Ok(false) };
    let event = case.trace[i];
    let singles = usize::try_from(event.cost).unwrap_or(0);
    let mut trace = case.trace.clone();
    trace.splice(i..=i, (0..singles).map(|_| check(event.at_ns, 1)));
    let parts = subject.run(&case.spec, &trace, false);
    if !parts[i..i + singles].iter().all(|answer| answer.allowed) {
        return Err(format!("{singles} at once were admitted, one by one they are not"));
    }
    // Singles and batch leave the same state, so everything after them is the same. Count-refusals mode records refused
    // singles differently.
    if parts[i + singles..] != whole[i + 1..] && case.spec.mode != Mode::CountRefusals {
        return Err(format!("{singles} at once leave another state than one by one"));
    }
    Ok(true)
}
