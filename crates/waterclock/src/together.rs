//! What is the same in every store: several charges, all or nothing; and what was used of what was held.

use std::time::Duration;

use waterclock_core::{Cost, CostError, Policy, Verdict};

use crate::store::Answer;

/// All or nothing, over the policies that can refuse. Shadow policies stand beside it.
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

/// A charge given up for another one's sake passes when that one does.
pub fn retry_together(answers: &mut [Answer]) {
    let refused = |answer: &&mut Answer| !answer.decision.is_allowed();
    let waits = answers.iter().map(|answer| answer.decision.retry_after());
    // `None` is never, which is the longest wait there is.
    let longest = waits.max_by_key(|wait| wait.unwrap_or(Duration::MAX)).flatten();
    for answer in answers.iter_mut().filter(refused) {
        answer.decision = answer.decision.no_sooner(longest);
    }
}

/// What was used of something that was held, by whichever of these policies understands it: the one that it was
/// held under, and the one that has taken its place. Of requests that are not named, as many as were held.
pub fn price_of_held(used: &Cost, held: &Cost, by: [&Policy; 2]) -> Result<Cost, CostError> {
    let requests = held.of("requests");
    by[0].price(used, requests).or_else(|error| by[1].price(used, requests).map_err(|_| error))
}
