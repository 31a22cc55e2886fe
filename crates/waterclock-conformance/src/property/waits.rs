use super::{Held, check, last, pick, then};
use crate::case::Case;
use crate::reference::Answer;
use crate::subject::Subject;

/// Refused with retry r: the same cost at now + r is admitted.
pub(super) fn honour<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> Held {
    at_retry(subject, case, answers, 0, true)
}

/// … and one tick earlier it is refused.
pub(super) fn tight<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> Held {
    at_retry(subject, case, answers, S::TICK_NS, false)
}

fn at_retry<S: Subject>(
    subject: &S,
    case: &Case,
    answers: &[Answer],
    earlier: u64,
    allowed: bool,
) -> Held {
    let Some(i) = pick(case, |i| ends(&answers[i])) else { return Ok(false) };
    let (event, retry) = (case.trace[i], answers[i].retry_after_ns.unwrap_or(0));
    // What the subject's clock cannot show is shown rounded up.
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

/// Refused, with a wait that ends within what a clock can tell and a search can find.
fn ends(answer: &Answer) -> bool {
    !answer.allowed && answer.retry_after_ns.is_some_and(|retry| retry > 0 && retry < 1 << 61)
}
