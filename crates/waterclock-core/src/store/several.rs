//! The short way for a policy of several limits: each is asked once, and all are charged or none.

use core::cmp::Ordering;

use crate::algorithm::narrow::Narrow;
use crate::algorithm::{Meter as _, NEVER};
use crate::decision::UNBOUNDED;
use crate::room::{Left, Room};
use crate::store::State;
use crate::{Decision, Limit, LimitSet};

/// How many words the limits may have together: each is kept until all limits have admitted.
pub(crate) const MOST_WORDS: usize = 8;

/// A check that all of the limits admit, each with its word. Says the same as judge, record and answer do.
///
/// `None` if one refuses, if nothing is asked for, or if there are more than [`MOST_WORDS`]: then nothing was written, and
/// the long way has the answer.
#[inline]
pub(super) fn admit(limits: &[Narrow], words: &mut [u64], now: u64, cost: u64) -> Option<Decision> {
    if cost == 0 || words.len() > MOST_WORDS {
        return None;
    }
    let (mut least, mut charged) = (Least::default(), [0; MOST_WORDS]);
    for ((limit, word), charged) in limits.iter().zip(&*words).zip(&mut charged) {
        *charged = limit.after(*word, now, cost)?;
        least.add(limit.capacity(), &limit.left(*charged, now));
    }
    words.iter_mut().zip(charged).for_each(|(word, charged)| *word = charged);
    Some(least.decision(cost))
}

/// The same for limits of any algorithms that keep no logs and do not recur, of [`MOST_WORDS`] together.
#[inline]
pub(super) fn admit_any(
    limits: &[Limit],
    state: &mut State<'_>,
    now: u64,
    cost: u64,
) -> Option<Decision> {
    let count = state.words.len();
    if cost == 0 || count > MOST_WORDS {
        return None;
    }
    let mut before = [0; MOST_WORDS];
    before.iter_mut().zip(&*state.words).for_each(|(before, word)| *before = *word);
    let (mut least, mut start) = (Least::default(), 0);
    for limit in limits {
        let most = limit.max_cost().unwrap_or(UNBOUNDED);
        let (wait, room) = limit.algorithm().spend(state.part(start, limit.words()), now, cost);
        if wait > 0 {
            state.words.copy_from_slice(&before[..count]);
            return None;
        }
        least.add(most, &room.left(most));
        start += limit.words();
    }
    Some(least.decision(cost))
}

/// What several limits leave together.
struct Least {
    limit: u64,
    remaining: u64,
    next_unit: u64,
    reset: u64,
}

impl Default for Least {
    fn default() -> Self {
        Self { limit: UNBOUNDED, remaining: UNBOUNDED, next_unit: NEVER, reset: 0 }
    }
}

impl Least {
    #[inline(always)]
    fn add(&mut self, limit: u64, left: &Left) {
        self.limit = self.limit.min(limit);
        self.reset = self.reset.max(left.reset);
        // One more is admitted when those that have no more than the least left have it.
        self.next_unit = match left.remaining.cmp(&self.remaining) {
            Ordering::Less => left.next_unit,
            Ordering::Equal => self.next_unit.max(left.next_unit),
            Ordering::Greater => self.next_unit,
        };
        self.remaining = self.remaining.min(left.remaining);
    }

    /// The decision that admits a cost. What was charged is not left, so there will be more.
    #[inline(always)]
    fn decision(self, cost: u64) -> Decision {
        let Self { limit, remaining, next_unit, reset } = self;
        Decision {
            allowed: true,
            refused_by: LimitSet::default(),
            shadow_refused_by: LimitSet::default(),
            granted: cost,
            limit,
            retry: 0,
            counter: i64::MIN,
            room: Room::Counted { remaining, next_unit, reset },
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;
    use core::time::Duration;

    use crate::store::{Decide as _, Logs, State};
    use crate::{
        Cost, FixedWindow, Gcra, LeakyBucket, Limit, MinInterval, Policy, SlidingWindow, Timestamp,
    };

    fn gcras() -> Vec<Gcra> {
        let (second, years) = (Duration::from_secs(1), Duration::from_secs(31_557_600));
        vec![
            Gcra::new(1, second).unwrap(),
            Gcra::new(5, second).unwrap(),
            Gcra::new(100, Duration::from_secs(60)).unwrap().with_capacity(7),
            // Thirds of a nanosecond.
            Gcra::new(3, Duration::from_nanos(10)).unwrap(),
            Gcra::new(3, Duration::from_nanos(10)).unwrap().with_capacity(0),
            // As deep as one word can be.
            Gcra::new(1, years).unwrap().with_capacity(40),
        ]
    }

    /// Everything that a decision says, and the words after it.
    fn assert_same(policy: &Policy, words: &[u64], now: Timestamp, cost: u64) -> bool {
        let (mut short, mut long) = (words.to_vec(), words.to_vec());
        let (mut logs, units) = (Logs::new(), Cost::from(cost));
        let decision = policy.check(&mut State::new(&mut short, &mut logs), now, cost);

        let mut state = State::new(&mut long, &mut logs);
        let verdict = policy.judge(state.view(), now, &units);
        policy.record(&mut state, now, &units, verdict);
        let expected = policy.answer(state.view(), now, &units, verdict);
        assert_eq!(decision, expected, "{policy:?} {words:?} {now:?} {cost}");
        assert_eq!(short, long, "{policy:?} {words:?} {now:?} {cost}");
        decision.is_allowed()
    }

    #[test]
    fn several_words_say_what_the_long_way_says() {
        let (gcras, last) = (gcras(), Timestamp::MAX.as_nanos());
        let (mut admitted, mut refused) = (0, 0);
        for set in 0_usize..1 << gcras.len() {
            let chosen: Vec<Gcra> =
                (0..gcras.len()).filter(|i| set & (1 << i) != 0).map(|i| gcras[i]).collect();
            let named = chosen.iter().enumerate();
            let limits: Vec<Limit> = named
                .map(|(i, gcra)| Limit::from(*gcra).with_name(["a", "b", "c", "d", "e", "f"][i]))
                .collect();
            let policy = Policy::new("several", limits).unwrap();
            for now in [0, 1_000_000_007, 1_700_000_000_123_456_789, last - 1, last] {
                for state in 0..8_u64 {
                    // Fresh, stale, with some debt, full, and deeper than full after a debit; each limit another.
                    let word = |(i, gcra): (usize, &Gcra)| {
                        let (step, scale) = gcra.unit_ns();
                        let (at, full) = (now * scale, gcra.capacity() * step);
                        match (state + i as u64 * state / 3) % 8 {
                            0 => 0,
                            1 => at.saturating_sub(1),
                            2 => at,
                            3 => at + 1,
                            4 => at + full - full.min(2 * step),
                            5 => at + full - full.min(step),
                            6 => at + full,
                            _ => at.saturating_add(full + step),
                        }
                    };
                    let words: Vec<u64> = chosen.iter().enumerate().map(word).collect();
                    for cost in [0, 1, 2, 3, 5, 7, 8, u64::MAX] {
                        let now = Timestamp::from_nanos(now);
                        if assert_same(&policy, &words, now, cost) {
                            admitted += 1;
                        } else {
                            refused += 1;
                        }
                    }
                }
            }
        }
        assert!(admitted > 1_000 && refused > 1_000, "{admitted} {refused}");
    }

    /// Any calls under limits of several algorithms, at instants that only grow, and with debits and refunds in between.
    #[test]
    fn several_algorithms_say_what_the_long_way_says() {
        let per = Duration::from_nanos(1_000);
        let limits: [Limit; 8] = [
            Gcra::new(9, per).unwrap().into(),
            // Sevenths of a nanosecond: two words.
            Gcra::new(7, per).unwrap().with_capacity(8).with_name("two words"),
            Gcra::new(9, per).unwrap().with_overdraft(true).with_name("overdraft"),
            LeakyBucket::new(9, 2, per / 10).unwrap().into(),
            FixedWindow::new(8, per).unwrap().into(),
            FixedWindow::aligned(8, per).unwrap().with_name("aligned"),
            SlidingWindow::new(7, per).unwrap().into(),
            MinInterval::new(per / 50).unwrap().into(),
        ];
        // Reproducible, and good enough for a test.
        let mut seed = 11_u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let (mut admitted, mut refused, mut short) = (0, 0, 0);
        for set in 1_usize..1 << limits.len() {
            let chosen = (0..limits.len()).filter(|i| set & (1 << i) != 0);
            let policy = Policy::new("several", chosen.map(|i| limits[i].clone())).unwrap();
            short += u32::from(policy.admits_together());
            let (mut now, mut words) = (1_700_000_000_000_000_123, vec![0; policy.words()]);
            for _ in 0..200 {
                now += match random(5) {
                    0 => 0,
                    1 => 1,
                    2 => random(30),
                    3 => random(150),
                    _ => random(2_500),
                };
                let (at, cost) = (Timestamp::from_nanos(now), random(4));
                let (mut logs, units) = (Logs::new(), Cost::from(cost));
                let mut state = State::new(&mut words, &mut logs);
                match random(12) {
                    0 => policy.debit(&mut state, at, &units),
                    1 => policy.refund(&mut state, at, &units),
                    _ => {}
                }
                let before = words.clone();
                if assert_same(&policy, &before, at, cost) {
                    admitted += 1;
                } else {
                    refused += 1;
                }
                _ = policy.check(&mut State::new(&mut words, &mut logs), at, cost);
            }
        }
        assert!(admitted > 1_000 && refused > 1_000 && short > 100, "{admitted} {refused} {short}");
    }
}
