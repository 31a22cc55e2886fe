//! Expiry: a record lives exactly as long as it matters.

use std::time::Duration;

/// The writer rounds up, Redis counts from the start of a millisecond, and the machine's clock may be adjusted in
/// between.
const SLACK_MS: i64 = 20;

/// Complains unless a record's time to live, looked at no more than `since` after the decision,
/// is the decision's `reset_after`, rounded up to a millisecond.
pub(crate) fn expiry(ttl_ms: i64, reset: Duration, since: Duration) -> Result<(), String> {
    let longest = i64::try_from(reset.as_nanos().div_ceil(1_000_000)).unwrap();
    let passed = i64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap();
    match ttl_ms {
        -1 => Err("a record that never expires".into()),
        // No record: as it should be for a key that is fresh by now.
        -2 if longest <= passed + SLACK_MS => Ok(()),
        -2 => Err(format!("no record although it matters for {reset:?}")),
        _ if (longest - passed - SLACK_MS..=longest + SLACK_MS).contains(&ttl_ms) => Ok(()),
        _ => Err(format!("{ttl_ms} ms to live, {since:?} after {reset:?} were left")),
    }
}
