use super::{Held, has_shadow};
use crate::case::{Case, Event};
use crate::reference::{Answer, Mode, Verb};
use crate::subject::Subject;

/// Sweeping before any call changes no result.
pub(super) fn sweeps<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> Held {
    let kept = answers;
    let swept = subject.run(&case.spec, &case.trace, true);
    match kept.iter().zip(&swept).position(|(kept, swept)| kept != swept) {
        None => Ok(true),
        Some(i) => Err(format!("call {i} is {:?}, and after a sweep {:?}", kept[i], swept[i])),
    }
}

/// Inserting peeks changes no other result.
pub(super) fn peeks<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> Held {
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
        Some(i) => Err(format!("call {i} is another one among peeks; it was {:?}", plain[i])),
    }
}

/// Deleting refused calls changes nothing.
pub(super) fn refusals<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> Held {
    // Uniform records refusals, and a shadow limit what it would have admitted.
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
