use super::Held;
use crate::case::Case;
use crate::reference::{Algorithm, Answer, Model};
use crate::subject::Subject;

/// Every field of every answer equals the naive model's.
pub(super) fn agrees<S: Subject>(_: &S, case: &Case, answers: &[Answer]) -> Held {
    let mut model = Model::new(case.spec.clone());
    for (i, (event, answer)) in case.trace.iter().zip(answers).enumerate() {
        let expected = model.apply(event.at_ns, event.verb, event.cost);
        if !is_too_far(&expected) && *answer != expected {
            return Err(format!("call {i} is {answer:#?}, the model says {expected:#?}"));
        }
    }
    Ok(true)
}

/// Where waits end after the last instant there is, model and engine give up in different places.
fn is_too_far(answer: &Answer) -> bool {
    let own = [answer.retry_after_ns, answer.next_unit_ns, Some(answer.reset_after_ns)];
    let limits = answer.limits.iter().map(|limit| Some(limit.reset_after_ns));
    own.into_iter().chain(limits).any(|wait| wait >= Some(1 << 62))
}

/// A leaky bucket that drips one by one is GCRA with T = every.
pub(super) fn leaky_is_gcra<S: Subject>(subject: &S, case: &Case, answers: &[Answer]) -> Held {
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
    Err("as gcra the answers are others".to_owned())
}
