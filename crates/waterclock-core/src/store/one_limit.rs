//! The short way for a policy of one limit, which most are.

use crate::algorithm::Meter;
use crate::algorithm::narrow::Narrow;
use crate::decision::UNBOUNDED;
use crate::room::Room;
use crate::store::State;
use crate::{Decision, LimitSet, Timestamp};

/// A check by one limit that stands alone, without a gap, in binary mode: most policies are that,
/// and need no sets and no second look. Says the same as judge, record and answer do.
#[inline(always)]
pub(crate) fn alone<M: Meter>(meter: &M, mut state: State<'_>, now: u64, cost: u64) -> Decision {
    let retry = if cost == 0 { 0 } else { meter.wait(state.view(), now, meter.need(cost)) };
    if retry == 0 && cost > 0 {
        meter.charge(state.reborrow(), now, cost);
    }
    decision(meter.max_cost().unwrap_or(UNBOUNDED), cost, retry, meter.room(state.view(), now))
}

/// The decision of a limit that stands alone, once it is known how long the cost must wait.
#[inline(always)]
fn decision(limit: u64, cost: u64, retry: u64, room: Room) -> Decision {
    let allowed = retry == 0;
    let mut refused_by = LimitSet::default();
    if !allowed {
        refused_by.insert(0);
    }
    Decision {
        allowed,
        refused_by,
        shadow_refused_by: LimitSet::default(),
        granted: if allowed { cost } else { 0 },
        limit,
        retry,
        counter: i64::MIN,
        room,
    }
}

/// A policy of one limit whose whole state is one word, as most are.
#[derive(Clone, Copy)]
pub struct OneWord<'a>(pub(super) &'a Narrow);

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
        // Each builds its own: in one of them, most fields are constants.
        match self.0.spend(word, now.as_nanos(), cost) {
            Ok(room) => decision(self.0.capacity(), cost, 0, room),
            Err((retry, room)) => decision(self.0.capacity(), cost, retry, room),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::store::{Decide as _, Logs};
    use crate::{Cost, Gcra, Limit, Policy};

    /// Everything that a decision says, and the word after it.
    fn assert_same(policy: &Policy, word: u64, now: Timestamp, cost: u64) {
        let mut short = word;
        let decision = policy.one_word().unwrap().check(&mut short, now, cost);

        let (mut words, mut logs, units) = ([word], Logs::new(), Cost::from(cost));
        let mut state = State::new(&mut words, &mut logs);
        let verdict = policy.judge(state.view(), now, &units);
        policy.record(&mut state, now, &units, verdict);
        let expected = policy.answer(state.view(), now, &units, verdict);

        let asked = (policy.limits(), word, now, cost);
        assert_eq!(decision, expected, "{asked:?}");
        assert_eq!(short, words[0], "{asked:?}");
    }

    #[test]
    fn one_word_says_what_the_long_way_says() {
        let second = Duration::from_secs(1);
        let years = Duration::from_secs(31_557_600);
        let limits = [
            Gcra::new(1, second).unwrap(),
            Gcra::new(5, second).unwrap(),
            // Thirds of a nanosecond.
            Gcra::new(3, Duration::from_nanos(10)).unwrap(),
            Gcra::new(3, Duration::from_nanos(10)).unwrap().with_capacity(0),
            // As deep as one word can be.
            Gcra::new(1, years).unwrap().with_capacity(40),
            Gcra::new(10, second).unwrap().with_capacity(1_000),
        ];
        for gcra in limits {
            let policy = Policy::from(Limit::from(gcra));
            let (step, scale) = gcra.unit_ns();
            let full = gcra.capacity() * step;
            let last = Timestamp::MAX.as_nanos();
            for now in [0, 1, 1_000_000_007, 1_700_000_000_123_456_789, last - 1, last] {
                let at = now * scale;
                let debts = [1, step - 1, step, full - full.min(step), full - full.min(1), full];
                // Fresh, stale, with some debt, full, and deeper than full after a debit.
                let deep =
                    [full + 1, full + step, full + 7 * step].map(|debt| at.saturating_add(debt));
                let states = [0, at.saturating_sub(1), at];
                for word in states.into_iter().chain(debts.map(|debt| at + debt)).chain(deep) {
                    let most = gcra.capacity();
                    for cost in [0, 1, 2, most.saturating_sub(1), most, most + 1, u64::MAX] {
                        assert_same(&policy, word, Timestamp::from_nanos(now), cost);
                    }
                }
            }
        }
    }
}
