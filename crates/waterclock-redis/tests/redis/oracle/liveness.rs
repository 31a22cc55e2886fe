//! Liveness: every call is answered in time, and the store decides again soon after a fault.

use std::time::Duration;

use super::Call;

/// What a busy machine may add to the deadline of most calls, and of any, before a test fails. The figure to publish is
/// what tests print on an idle one.
const SLACK: Duration = Duration::from_millis(450);
const MOST_SLACK: Duration = Duration::from_secs(3);
/// How soon after the last fault the store must decide again, on a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// The middle, the 99th percentile and the longest of what calls took.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "is printed")]
pub(crate) struct Latencies {
    calls: usize,
    median: Duration,
    p99: Duration,
    longest: Duration,
}

pub(crate) fn latencies(calls: &[Call]) -> Latencies {
    let mut took: Vec<Duration> = calls.iter().map(Call::took).collect();
    took.sort();
    let at = |percent: usize| took.get((took.len() * percent / 100).min(took.len() - 1)).copied();
    let part = |percent| at(percent).unwrap_or_default();
    Latencies { calls: took.len(), median: part(50), p99: part(99), longest: part(100) }
}

/// Complains if more than a hundredth of the calls took longer than their deadline, or one of them much longer.
pub(crate) fn answered_in_time(calls: &[Call], deadline: Duration) -> Result<(), String> {
    let longer = |than| calls.iter().filter(move |call| call.took() > than);
    if let Some(call) = longer(deadline + MOST_SLACK).next() {
        return Err(format!("{call:?} took {:?}, not {deadline:?}", call.took()));
    }
    let late = longer(deadline + SLACK).count();
    // A machine that stands still for a moment does so for every caller there is.
    if late > 16.max(calls.len() / 100) {
        return Err(format!("{late} of {} calls took longer than {deadline:?}", calls.len()));
    }
    Ok(())
}

/// How long after `healed` the store decided again; complains if it did not soon, or not steadily.
pub(crate) fn recovery(calls: &[Call], healed: Duration) -> Result<Duration, String> {
    let after = || calls.iter().filter(|call| call.invoked >= healed);
    let decided = after().filter(|call| call.is_from_store()).map(|call| call.returned).min();
    let decided = decided.ok_or("the store never decides again")?;
    let took = decided - healed;
    if took > SOON {
        return Err(format!("the store decides again after {took:?} only"));
    }
    let since: Vec<&Call> = after().filter(|call| call.invoked >= decided).collect();
    let stand_ins = since.iter().filter(|call| !call.is_from_store()).count();
    // On a busy machine many calls are late, but most are not.
    if stand_ins * 4 > since.len() * 3 {
        return Err(format!("{stand_ins} of {} calls fail after the recovery", since.len()));
    }
    Ok(took)
}
