//! Conservation: what callers were granted is what the store says is used.

use waterclock::{Failure, Source};

use super::{Call, Outcome};

/// Fails unless the usage of a limit that does not drain equals what its callers were granted, give or take calls
/// without an answer.
pub(crate) fn conservation(calls: &[Call], used: u64) -> Result<(), String> {
    let certain: u64 = calls.iter().filter_map(certain).sum();
    let possible: u64 = calls.iter().map(possible).sum();
    if (certain..=certain + possible).contains(&used) {
        return Ok(());
    }
    Err(format!("{used} used, but {certain} granted, and {possible} more at most"))
}

fn certain(call: &Call) -> Option<u64> {
    (call.source() == Some(Source::Authoritative)).then(|| call.granted())
}

/// Units that the store may have charged without the caller hearing of it.
fn possible(call: &Call) -> u64 {
    match call.outcome {
        // Charged by the call that got no answer, and again when what stood in for it was settled.
        Outcome::Answered { source: Source::Local, granted } => call.cost + granted,
        Outcome::Answered { source: Source::Policy, .. } => call.cost,
        Outcome::Answered { .. } => 0,
        Outcome::Failed(kind) if is_ambiguous(kind) => call.cost,
        Outcome::Failed(_) => 0,
    }
}

fn is_ambiguous(kind: Failure) -> bool {
    matches!(kind, Failure::Timeout | Failure::Unreachable | Failure::BadReply)
}
