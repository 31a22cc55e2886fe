//! When limits that may close again are all open.

use crate::Timestamp;
use crate::algorithm::NEVER;

/// How many steps a wait over limits that shrink again may take before it is given as it stands.
///
/// Two quotas of unrelated periods may take arbitrarily long to admit at once; each step is the
/// next instant at which one of them changes its mind.
const MOST_STEPS: u32 = 1_024;

/// Debts may be a hundred years deep at the last instant there is; nothing is searched beyond that.
const LAST_INSTANT: u64 = Timestamp::MAX.as_nanos() + 36_525 * 86_400 * 1_000_000_000;

/// The smallest d with `wait(now + d) == 0`, where `wait` is a lower bound of the time to go.
///
/// One evaluation is enough for waits that only ever end. Where room can shrink again (`recurs`) other
/// limits may have closed in the meantime: evaluate again until all are open.
#[inline]
pub(crate) fn fixed_point(now: u64, recurs: bool, wait: impl Fn(u64) -> u64) -> u64 {
    let first = wait(now);
    if !recurs || first == 0 || first == NEVER {
        return first;
    }
    let mut total = first;
    for _ in 0..MOST_STEPS {
        let at = now.saturating_add(total);
        if at > LAST_INSTANT {
            break;
        }
        match wait(at) {
            0 => break,
            NEVER => return NEVER,
            more => total = total.saturating_add(more),
        }
    }
    total
}
