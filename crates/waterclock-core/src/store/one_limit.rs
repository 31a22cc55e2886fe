//! The short way for a policy of one limit, which most are.

use crate::algorithm::Meter;
use crate::algorithm::narrow::Narrow;
use crate::decision::UNBOUNDED;
use crate::room::Room;
use crate::store::State;
use crate::{Decision, LimitSet, Timestamp};

/// A check by one limit that stands alone, without a gap, in binary mode: most policies are that,
/// and need no sets and no second look. Says the same as judge, record and answer do.
#[inline(never)]
pub(crate) fn alone<M: Meter>(meter: &M, state: State<'_>, now: u64, cost: u64) -> Decision {
    let (retry, room) = match cost {
        0 => (0, meter.room(state.view(), now)),
        _ => meter.spend(state, now, cost),
    };
    decision(meter.max_cost().unwrap_or(UNBOUNDED), cost, retry, room)
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
    use alloc::vec;

    use crate::store::{Decide as _, Logs, View};
    use crate::{
        Cost, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit, MinInterval, Policy, Quota,
        RollingWindow, SlidingWindow,
    };

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

        let (view, limit) = (View::new(&words, &logs), &policy.limits()[0]);
        let (fresh, half) = (policy.fresh_in(view, now), policy.half_fresh_in(view, now));
        let at = now.as_nanos();
        assert_eq!(fresh, Duration::from_nanos(limit.reset(view, at)), "{asked:?}");
        assert_eq!(half, Duration::from_nanos(limit.half_reset(view, at)), "{asked:?}");
    }

    /// Any calls under any algorithm that stands alone, at instants that only grow, and with debits and refunds in between.
    #[test]
    fn one_step_says_what_many_say() {
        let per = Duration::from_nanos(1_000);
        let limits: [Limit; 12] = [
            EvenSlots::new(50, per).unwrap().into(),
            EvenSlots::new(3, per).unwrap().into(),
            MinInterval::new(per / 10).unwrap().into(),
            Quota::new(7, per).unwrap().into(),
            Quota::new(1_500, per).unwrap().into(),
            LeakyBucket::new(9, 2, per / 10).unwrap().into(),
            LeakyBucket::new(3, 7, per).unwrap().into(),
            LeakyBucket::new(9, 2, per / 10).unwrap().with_overdraft(true).into(),
            RollingWindow::new(6, per).unwrap().into(),
            RollingWindow::bucketed(6, per, 4).unwrap().into(),
            FixedWindow::new(6, per).unwrap().into(),
            SlidingWindow::new(6, per).unwrap().into(),
        ];
        // Reproducible, and good enough for a test.
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for limit in limits {
            let policy = Policy::from(limit);
            for start in [0, 1_700_000_000_000_000_123] {
                let (mut now, mut words, mut logs) = (start, vec![0; policy.words()], Logs::new());
                for _ in 0..3_000 {
                    now += match random(5) {
                        0 => 0,
                        1 => 1,
                        2 => random(30),
                        3 => random(150),
                        _ => random(2_500),
                    };
                    let (at, cost) = (Timestamp::from_nanos(now), random(9));
                    let units = Cost::from(cost);
                    let mut state = State::new(&mut words, &mut logs);
                    match random(12) {
                        0 => policy.debit(&mut state, at, &units),
                        1 => policy.refund(&mut state, at, &units),
                        _ => {}
                    }
                    let (mut long_words, mut long_logs) = (words.clone(), logs.clone());
                    let mut long = State::new(&mut long_words, &mut long_logs);
                    let verdict = policy.judge(long.view(), at, &units);
                    policy.record(&mut long, at, &units, verdict);
                    let expected = policy.answer(long.view(), at, &units, verdict);
                    let decision = policy.check(&mut State::new(&mut words, &mut logs), at, cost);
                    let asked = (policy.limits(), now - start, cost);
                    assert_eq!(decision, expected, "{asked:?}");
                    let (one, many) =
                        (View::new(&words, &logs), View::new(&long_words, &long_logs));
                    for after in [0, 1, 99, 1_000, 3_000] {
                        let later = Timestamp::from_nanos(now + after);
                        let one = policy.peek(one, later, &1.into());
                        assert_eq!(one, policy.peek(many, later, &1.into()), "{asked:?}");
                    }
                }
            }
        }
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
