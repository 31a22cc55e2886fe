//! The short way for a policy of one limit, which most are.

use crate::algorithm::Meter;
use crate::algorithm::gcra::Cells;
use crate::decision::UNBOUNDED;
use crate::store::{Logs, State};
use crate::{Decision, LimitSet, Timestamp};

/// A check by one limit that stands alone, without a gap, in binary mode: most policies are that,
/// and need no sets and no second look. Says the same as judge, record and answer do.
#[inline(always)]
pub(crate) fn alone<M: Meter>(meter: &M, mut state: State<'_>, now: u64, cost: u64) -> Decision {
    let retry = if cost == 0 { 0 } else { meter.wait(state.view(), now, meter.need(cost)) };
    let allowed = retry == 0;
    if allowed && cost > 0 {
        meter.charge(state.reborrow(), now, cost);
    }
    let mut refused_by = LimitSet::default();
    if !allowed {
        refused_by.insert(0);
    }
    Decision {
        allowed,
        refused_by,
        shadow_refused_by: LimitSet::default(),
        granted: if allowed { cost } else { 0 },
        limit: meter.max_cost().unwrap_or(UNBOUNDED),
        retry,
        counter: i64::MIN,
        room: meter.room(state.view(), now),
    }
}

/// A policy of one limit whose whole state is one word, as most are.
#[derive(Clone, Copy)]
pub struct OneWord<'a>(pub(super) Cells<'a, u64>);

impl core::fmt::Debug for OneWord<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("OneWord")
    }
}

impl OneWord<'_> {
    /// As [`Decide::check`](super::Decide::check).
    // Whether the compiler inlines it by itself changes with every edit, and is worth 20 instructions.
    #[inline(always)]
    pub fn check(&self, word: &mut u64, now: Timestamp, cost: u64) -> Decision {
        let mut no_logs = Logs::new();
        let state = State::new(core::slice::from_mut(word), &mut no_logs);
        alone(&self.0, state, now.as_nanos(), cost)
    }
}
