//! Several charges in one check: all or nothing, whatever the store.

use std::time::Duration;

use tollgate_core::{Policy, Verdict};

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
