//! Thaw: a key that is used up passes again within one refill, whatever the store's clock did.

use std::time::Duration;

use super::Call;

/// What a busy machine may add to a wait.
const SLACK: Duration = Duration::from_millis(300);

/// How long after `since` something was admitted; complains if nothing was within a refill.
pub(crate) fn thaw(calls: &[Call], since: Duration, refill: Duration) -> Result<Duration, String> {
    let after = calls.iter().filter(|call| call.invoked >= since && call.granted() > 0);
    let waited = after.map(|call| call.invoked - since).min();
    match waited {
        Some(waited) if waited <= refill + SLACK => Ok(waited),
        Some(waited) => Err(format!("admitted after {waited:?}, a refill takes {refill:?}")),
        None => Err(format!("frozen: nothing is admitted, a refill takes {refill:?}")),
    }
}
