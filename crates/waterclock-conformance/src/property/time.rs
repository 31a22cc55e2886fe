use super::Held;
use crate::case::{Case, Event};
use crate::family::period_of;
use crate::reference::{Algorithm, Align, Answer, Verb};
use crate::subject::Subject;

/// Steps back of the clock never admit more than time that stands still instead.
pub(super) fn steps_back<S: Subject>(subject: &S, case: &Case, _: &[Answer]) -> Held {
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
pub(super) fn epoch_shift<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> Held {
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
