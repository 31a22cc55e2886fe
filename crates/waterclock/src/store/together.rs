//! What is the same in every store: several charges are admitted together or not at all.

use std::time::Duration;

use waterclock_core::store::Verdict;
use waterclock_core::{Cost, CostError, Policy};

use super::{Answer, Failure, StoreError};

/// Makes the verdicts of one check all or nothing: if a policy that can refuse does, the others are withheld.
/// Policies in shadow neither refuse nor are withheld.
pub fn withhold_unless_all_admit(policies: &[&Policy], verdicts: &mut [Verdict]) {
    let refuses =
        |(policy, verdict): (&&Policy, &Verdict)| !verdict.admits() && !policy.is_shadow();
    if policies.len() == 1 || !policies.iter().zip(verdicts.iter()).any(refuses) {
        return;
    }
    for (policy, verdict) in policies.iter().zip(verdicts) {
        if !policy.is_shadow() {
            *verdict = verdict.withheld(policy);
        }
    }
}

/// Gives all refused charges of one check the longest `retry_after` among them: they are admitted together.
pub fn retry_together(answers: &mut [Answer]) {
    let refused = |answer: &&mut Answer| !answer.decision.is_allowed();
    let waits = answers.iter().map(|answer| answer.decision.retry_after());
    // `None` is never, which is the longest wait there is.
    let longest = waits.max_by_key(|wait| wait.unwrap_or(Duration::MAX)).flatten();
    for answer in answers.iter_mut().filter(refused) {
        answer.decision = answer.decision.with_retry_after(longest);
    }
}

/// The cost of what was used of a reservation, by the policy it was made under, or by the one that replaced it.
/// Requests that are not named are as many as were held.
pub fn price_of_held(used: &Cost, held: &Cost, by: [&Policy; 2]) -> Result<Cost, CostError> {
    let requests = held.of("requests");
    by[0].price(used, requests).or_else(|error| by[1].price(used, requests).map_err(|_| error))
}

/// The answer to the only charge of a call.
pub(crate) fn only_answer(answers: Vec<Answer>) -> Result<Answer, StoreError> {
    <[Answer; 1]>::try_from(answers).map(|[answer]| answer).map_err(|answers| {
        let reason = format!("the store gave {} answers to one charge", answers.len());
        StoreError::failed(Failure::BadReply, reason)
    })
}
