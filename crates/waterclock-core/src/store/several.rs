//! The short way for a policy of several limits of one word each.

use core::cmp::Ordering;

use crate::algorithm::NEVER;
use crate::algorithm::narrow::Narrow;
use crate::decision::UNBOUNDED;
use crate::room::Room;
use crate::{Decision, LimitSet};

/// A check that all of the limits admit, each with its word. Says the same as judge, record and answer do.
///
/// `None` if one refuses, or if nothing is asked for: then nothing was written, and the long way has the answer.
#[inline]
pub(super) fn admit(limits: &[Narrow], words: &mut [u64], now: u64, cost: u64) -> Option<Decision> {
    if cost == 0 {
        return None;
    }
    for (limit, word) in limits.iter().zip(&*words) {
        limit.after(*word, now, cost)?;
    }
    let (mut limit, mut remaining, mut next_unit, mut reset) = (UNBOUNDED, UNBOUNDED, NEVER, 0);
    for (narrow, word) in limits.iter().zip(words) {
        *word = narrow.after(*word, now, cost)?;
        let left = narrow.left(*word, now);
        limit = limit.min(narrow.capacity());
        reset = reset.max(left.reset);
        // One more is admitted when those that have no more than the least left have it.
        next_unit = match left.remaining.cmp(&remaining) {
            Ordering::Less => left.next_unit,
            Ordering::Equal => next_unit.max(left.next_unit),
            Ordering::Greater => next_unit,
        };
        remaining = remaining.min(left.remaining);
    }
    Some(Decision {
        allowed: true,
        refused_by: LimitSet::default(),
        shadow_refused_by: LimitSet::default(),
        granted: cost,
        limit,
        retry: 0,
        counter: i64::MIN,
        room: Room::Counted { remaining, next_unit, reset },
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;
    use core::time::Duration;

    use crate::store::{Decide as _, Logs, State};
    use crate::{Cost, Gcra, Limit, Policy, Timestamp};

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
}
