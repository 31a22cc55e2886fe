//! Over what time a limit counts.

use waterclock::{Algorithm, Limit};

const SECOND_NS: u128 = 1_000_000_000;

/// The limit's window in whole seconds: the period of a window, the time a bucket takes to return
/// from empty to full. None where that is not a whole number, and where nothing is counted.
pub(super) fn whole_seconds(limit: &Limit) -> Option<u64> {
    let (nanos, parts) = match limit.algorithm() {
        Algorithm::Gcra(gcra) => {
            let (unit, scale) = gcra.unit_ns();
            (u128::from(gcra.capacity()) * u128::from(unit), u128::from(scale))
        }
        Algorithm::LeakyBucket(bucket) => {
            let drips = bucket.capacity().div_ceil(bucket.drip());
            (bucket.period().as_nanos() * u128::from(drips), 1)
        }
        Algorithm::FixedWindow(window) => (window.period().as_nanos(), 1),
        Algorithm::SlidingWindow(window) => (window.period().as_nanos(), 1),
        Algorithm::RollingWindow(window) => (window.period().as_nanos(), 1),
        Algorithm::Quota(quota) => (quota.period().as_nanos(), 1),
        _ => return None,
    };
    let second = parts * SECOND_NS;
    let whole = nanos > 0 && nanos.is_multiple_of(second);
    whole.then(|| u64::try_from(nanos / second).ok()).flatten()
}
