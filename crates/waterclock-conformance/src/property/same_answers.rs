//! P5–P7 and P9–P11: changes to a trace that must not change its answers; and the reference model, which must give
//! the same ones.

use super::{PropertyResult, has_shadow};
use crate::case::{Case, Event};
use crate::family::period_of;
use crate::reference::{Algorithm, Align, Answer, Mode, Model, Verb};
use crate::subject::Subject;

/// Sweeping before any call changes no result.
pub(super) fn sweeps<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> PropertyResult {
    let kept = answers;
    let swept = subject.run(&case.spec, &case.trace, true);
    match kept.iter().zip(&swept).position(|(kept, swept)| kept != swept) {
        None => Ok(true),
        Some(i) => Err(format!("call {i} is {:?}, and after a sweep {:?}", kept[i], swept[i])),
    }
}

/// Inserting peeks changes no other result.
pub(super) fn peeks<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> PropertyResult {
    let plain = answers;
    let peek = |event: &Event, cost| Event { verb: Verb::Peek, cost, ..*event };
    let with_peeks: Vec<Event> = case
        .trace
        .iter()
        .flat_map(|event| {
            [
                peek(event, event.cost),
                Event { verb: Verb::Check, cost: 0, ..*event },
                *event,
                peek(event, 1),
            ]
        })
        .collect();
    let mut others = subject.run(&case.spec, &with_peeks, false).into_iter().skip(2).step_by(4);
    match plain.iter().position(|answer| Some(answer) != others.next().as_ref()) {
        None => Ok(true),
        Some(i) => Err(format!(
            "call {i} changes if peeks are inserted; without them it is {:?}",
            plain[i]
        )),
    }
}

/// Deleting refused calls changes nothing.
pub(super) fn refusals<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> PropertyResult {
    // Count-refusals mode records refusals, and a shadow limit records what it would have admitted.
    if case.spec.mode == Mode::CountRefusals || has_shadow(&case.spec) {
        return Ok(false);
    }
    let all = answers;
    let was_refused =
        |i: usize| case.trace[i].verb == Verb::Check && !all[i].allowed && all[i].granted == 0;
    let kept: Vec<usize> = (0..case.trace.len()).filter(|i| !was_refused(*i)).collect();
    let trace: Vec<Event> = kept.iter().map(|i| case.trace[*i]).collect();
    let others = subject.run(&case.spec, &trace, false);
    match kept.iter().zip(&others).find(|(i, answer)| all[**i] != **answer) {
        None => Ok(kept.len() < case.trace.len()),
        Some((i, answer)) => {
            Err(format!("without the refusals call {i} is {answer:?} instead of {:?}", all[*i]))
        }
    }
}

/// A clock that steps back never admits more than one that stands still instead.
pub(super) fn steps_back<S: Subject>(subject: &S, case: &Case, _: &[Answer]) -> PropertyResult {
    let mut dice = fastrand::Rng::with_seed(case.dice);
    let stepping: Vec<Event> = case
        .trace
        .iter()
        .map(|event| {
            let back = if dice.u8(0..3) == 0 { dice.u64(0..=event.at_ns) } else { 0 };
            Event { at_ns: (event.at_ns - back) / S::TICK_NS * S::TICK_NS, ..*event }
        })
        .collect();
    let mut latest = 0;
    let still: Vec<Event> = stepping
        .iter()
        .map(|event| {
            latest = event.at_ns.max(latest);
            Event { at_ns: latest, ..*event }
        })
        .collect();
    let admitted = |trace: &[Event]| -> u128 {
        let answers = subject.run(&case.spec, trace, false);
        trace
            .iter()
            .zip(answers)
            .filter(|(event, answer)| event.verb == Verb::Check && answer.allowed)
            .map(|(_, answer)| u128::from(answer.granted))
            .sum()
    };
    let (with_steps, without) = (admitted(&stepping), admitted(&still));
    if with_steps <= without {
        return Ok(stepping != still);
    }
    Err(format!("{with_steps} admitted with steps back, {without} while time stands still"))
}

/// Adding a constant to all times, a multiple of the periods, changes nothing.
pub(super) fn epoch_shift<S: Subject>(
    subject: &S,
    case: &Case,
    answers: &[Answer],
) -> PropertyResult {
    const TODAY_NS: u64 = 1_794_000_000_000_000_000;
    let on_calendar = case.spec.limits.iter().any(|limit| {
        matches!(limit.algorithm, Algorithm::FixedWindow { align: Align::Calendar(_), .. })
    });
    let periods = case.spec.limits.iter().map(|limit| period_of(&limit.algorithm));
    let Some(common) = periods.into_iter().try_fold(1, lcm) else { return Ok(false) };
    if on_calendar || common > TODAY_NS || case.trace.iter().any(|e| e.at_ns > TODAY_NS / 4) {
        return Ok(false);
    }
    let shift = TODAY_NS / common * common;
    let later: Vec<Event> =
        case.trace.iter().map(|event| Event { at_ns: event.at_ns + shift, ..*event }).collect();
    let (then, today) = (answers, subject.run(&case.spec, &later, false));
    match then.iter().zip(&today).position(|(then, today)| then != today) {
        None => Ok(true),
        Some(i) => Err(format!("call {i} is {:?}, and {shift} ns later {:?}", then[i], today[i])),
    }
}

fn lcm(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}

/// Every field of every answer equals the naive model's.
pub(super) fn agrees<S: Subject>(_: &S, case: &Case, answers: &[Answer]) -> PropertyResult {
    let mut model = Model::new(case.spec.clone());
    for (i, (event, answer)) in case.trace.iter().zip(answers).enumerate() {
        let expected = model.apply(event.at_ns, event.verb, event.cost);
        if !is_too_far(&expected) && *answer != expected {
            return Err(format!("call {i} is {answer:#?}, the model says {expected:#?}"));
        }
    }
    Ok(true)
}

/// Waits beyond the last representable instant: model and core give up at different points.
fn is_too_far(answer: &Answer) -> bool {
    let waits = [answer.retry_after_ns, answer.next_unit_ns, answer.next_same_ns];
    let limits = answer.limits.iter().map(|limit| Some(limit.reset_after_ns));
    waits
        .into_iter()
        .chain([Some(answer.reset_after_ns)])
        .chain(limits)
        .any(|wait| wait >= Some(1 << 62))
}

/// A leaky bucket that drips one by one is GCRA with T = every.
pub(super) fn leaky_is_gcra<S: Subject>(
    subject: &S,
    case: &Case,
    answers: &[Answer],
) -> PropertyResult {
    let mut other = case.spec.clone();
    let mut translated = false;
    for limit in &mut other.limits {
        if let Algorithm::LeakyBucket { capacity, drip: 1, every_ns, overdraft } = limit.algorithm {
            limit.algorithm = Algorithm::Gcra { limit: 1, per_ns: every_ns, capacity, overdraft };
            translated = true;
        }
    }
    if !translated || answers == subject.run(&other, &case.trace, false) {
        return Ok(translated);
    }
    Err("the answers as gcra differ".to_owned())
}
