//! Over what time a limit counts.

use waterclock::Limit;

/// The limit's window in whole seconds: the period of a window, the time a bucket takes to return
/// from empty to full. None where that is not a whole number, and where nothing is counted.
pub(super) fn whole_seconds(limit: &Limit) -> Option<u64> {
    let window = limit.window().filter(|window| window.subsec_nanos() == 0)?;
    Some(window.as_secs()).filter(|seconds| *seconds > 0)
}
