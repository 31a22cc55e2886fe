//! A decision about a fresh key.

use waterclock::{Answer, Clock, Cost, MonotonicClock, Policy, Source, StoreError};
use waterclock_core::store::{Decide as _, Logs, State};

pub(super) fn decide(policy: &Policy, cost: &Cost) -> Result<Answer, String> {
    if !cost.is_zero() && policy.reserves_only() {
        return Err(StoreError::reserves_only(policy.name()).to_string());
    }
    let now = MonotonicClock::default().now();
    let (mut words, mut logs) = (vec![0; policy.words()], Logs::new());
    let mut state = State::new(&mut words, &mut logs);
    let verdict = policy.judge(state.view(), now, cost);
    policy.record(&mut state, now, cost, verdict);
    let decision = policy.answer(state.view(), now, cost, verdict);
    let limits = policy.each(state.view(), now, cost, verdict).collect();
    Ok(Answer { decision, limits, source: Source::Authoritative })
}
