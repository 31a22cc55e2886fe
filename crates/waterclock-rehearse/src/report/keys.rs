//! What each key asked for and what was decided, for a bounded number of keys.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::seen::{Agents, Kind};
use super::units::{LongestWait, counted};

/// How many keys are counted. Before there are more, the lighter half is evicted: a key that is refused often is found
/// however late it comes, and only keys with few checks are counted too low.
const MOST_KEYS: usize = 200_000;

/// The counts of a key, and how much they matter.
pub(crate) trait Record: Copy + Default {
    fn weight(&self) -> (u64, u64);
}

/// Keys with a record each.
#[derive(Default)]
pub(crate) struct Keys<R> {
    records: HashMap<Box<str>, R>,
    has_evicted: bool,
    distinct: Distinct,
}

impl<R: Record> Keys<R> {
    /// Writes into a key's record.
    pub(crate) fn note<T>(&mut self, key: &str, write: impl FnOnce(&mut R) -> T) -> T {
        if let Some(record) = self.records.get_mut(key) {
            return write(record);
        }
        if self.records.len() >= MOST_KEYS {
            evict_the_lighter_half(&mut self.records, R::weight);
            self.has_evicted = true;
        }
        self.distinct.add(key);
        write(self.records.entry(key.into()).or_default())
    }

    /// Whether there were more keys than are counted.
    pub(crate) fn has_evicted(&self) -> bool {
        self.has_evicted
    }

    /// How many keys there were.
    pub(crate) fn number(&self) -> KeyCount {
        self.number_of(self.records.len(), &self.distinct)
    }

    /// How many of them match; `distinct` has seen all that ever did.
    pub(crate) fn number_matching(
        &self,
        distinct: &Distinct,
        matches: impl Fn(&R) -> bool,
    ) -> KeyCount {
        let known = self.records.values().filter(|record| matches(record)).count();
        self.number_of(known, distinct)
    }

    fn number_of(&self, known: usize, distinct: &Distinct) -> KeyCount {
        let count = if self.has_evicted { distinct.estimate().max(known) } else { known };
        KeyCount { count, is_estimate: self.has_evicted }
    }

    /// All keys that are counted, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &R)> {
        self.records.iter().map(|(key, record)| (&**key, record))
    }

    /// The keys with the most of something, in a fixed order; keys with none of it are left out.
    pub(crate) fn top(&self, count: usize, of: impl Fn(&R) -> u64) -> Vec<(&str, R)> {
        self.top_by(count, |record| Some(of(record)).filter(|count| *count > 0))
    }

    /// The keys of the highest rank, in a fixed order; keys without one are left out.
    pub(crate) fn top_by<T: Ord>(
        &self,
        count: usize,
        rank: impl Fn(&R) -> Option<T>,
    ) -> Vec<(&str, R)> {
        let mut all: Vec<(&str, R)> = self
            .records
            .iter()
            .filter(|(_, record)| rank(record).is_some())
            .map(|(key, record)| (&**key, *record))
            .collect();
        let order = |one: &(&str, R), other: &(&str, R)| {
            rank(&other.1).cmp(&rank(&one.1)).then(one.0.cmp(other.0))
        };
        if all.len() > count && count > 0 {
            all.select_nth_unstable_by(count - 1, order);
        }
        all.truncate(count);
        all.sort_by(order);
        all
    }
}

/// Makes room in a map that is not empty.
pub(super) fn evict_the_lighter_half<K, V>(
    records: &mut HashMap<K, V>,
    weight: impl Fn(&V) -> (u64, u64),
) {
    let mut weights: Vec<(u64, u64)> = records.values().map(&weight).collect();
    let middle = weights.len() / 2;
    let (_, middle, _) = weights.select_nth_unstable(middle);
    let middle = *middle;
    records.retain(|_, record| weight(record) > middle);
}

/// How many keys: counted, or estimated where there were too many to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyCount {
    pub(crate) count: usize,
    pub(crate) is_estimate: bool,
}

impl fmt::Display for KeyCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.is_estimate { "about " } else { "" };
        write!(f, "{about}{}", counted(self.count, "key"))
    }
}

/// The counts of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRecord {
    pub(crate) checks: u64,
    pub(crate) refused: u64,
    /// Shadow limits would have refused, whatever the others decided.
    pub(crate) in_shadow: u64,
    pub(crate) first_refused_us: u64,
    pub(crate) last_refused_us: u64,
    pub(crate) longest: LongestWait,
    pub(crate) first_us: u64,
    pub(crate) last_us: u64,
    pub(crate) agents: Agents,
}

impl KeyRecord {
    /// Counts a check.
    pub(super) fn add(&mut self, t_us: u64, verdict: Verdict, is_in_shadow: bool) {
        if self.checks == 0 {
            self.first_us = t_us;
        }
        self.last_us = t_us;
        self.checks += 1;
        self.in_shadow += u64::from(is_in_shadow);
        if let Verdict::Refused { wait_us } = verdict {
            if self.refused == 0 {
                self.first_refused_us = t_us;
            }
            self.refused += 1;
            self.last_refused_us = t_us;
            self.longest.add(wait_us);
        }
    }
}

impl KeyRecord {
    /// Who the client seems to be; none if the log does not say.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.agents.kind(self.checks)
    }
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// Refused, with the advised wait; `None` is never.
    Refused {
        wait_us: Option<u64>,
    },
}

impl Record for KeyRecord {
    fn weight(&self) -> (u64, u64) {
        (self.refused + self.in_shadow, self.checks)
    }
}

const BITS: u32 = 14;
const REGISTERS: usize = 1 << BITS;

/// How many different keys there were: an estimate that is off by about 1 % (HyperLogLog), in 16 KiB. A key that comes
/// again changes nothing.
pub(crate) struct Distinct {
    longest: Vec<u8>,
}

impl Default for Distinct {
    fn default() -> Distinct {
        Distinct { longest: vec![0; REGISTERS] }
    }
}

impl Distinct {
    pub(crate) fn add(&mut self, key: &str) {
        let hash = hash_of(key);
        let place = usize::try_from(hash >> (u64::BITS - BITS)).unwrap_or(0);
        // One more than the zeros that follow: at most 51, so it fits.
        let zeros =
            u8::try_from((hash << BITS | 1 << (BITS - 1)).leading_zeros() + 1).unwrap_or(u8::MAX);
        self.longest[place] = self.longest[place].max(zeros);
    }

    /// About how many keys.
    pub(crate) fn estimate(&self) -> usize {
        let registers = REGISTERS as f64;
        let sum: f64 = self.longest.iter().map(|zeros| (-f64::from(*zeros)).exp2()).sum();
        let raw = 0.7213 / (1.0 + 1.079 / registers) * registers * registers / sum;
        let empty = self.longest.iter().filter(|zeros| **zeros == 0).count();
        // With few keys, the empty registers say more than the others.
        let few = registers * (registers / empty.max(1) as f64).ln();
        let estimate = if raw <= 2.5 * registers && empty > 0 { few } else { raw };
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate of a count"
        )]
        let rounded = estimate.round() as usize;
        rounded
    }
}

/// The same in every run, so that reports are.
pub(super) fn hash_of(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(keys: &mut Keys<KeyRecord>, key: &str, times: u64) {
        (0..times).for_each(|t_us| {
            keys.note(key, |record| record.add(t_us, Verdict::Refused { wait_us: Some(7) }, false));
        });
    }

    #[test]
    fn the_most_first_and_then_by_name() {
        let mut keys = Keys::<KeyRecord>::default();
        for (key, refused) in [("b", 2), ("a", 2), ("most", 9), ("few", 1)] {
            refuse(&mut keys, key, refused);
        }
        keys.note("none", |record| record.add(1, Verdict::Allowed, false));
        let top: Vec<&str> =
            keys.top(3, |record| record.refused).into_iter().map(|(key, _)| key).collect();
        assert_eq!(top, ["most", "a", "b"]);
        assert_eq!(keys.top(10, |record| record.refused).len(), 4);
        assert_eq!(keys.number().to_string(), "5 keys");
        let refused = keys.number_matching(&Distinct::default(), |record| record.refused > 0);
        assert_eq!(refused, KeyCount { count: 4, is_estimate: false });
    }

    /// A flood of keys hides no key that is refused often, whether it comes before or after.
    #[test]
    fn keys_refused_often_are_found_whenever_they_come() {
        let mut keys = Keys::<KeyRecord>::default();
        refuse(&mut keys, "early", 50);
        for number in 0..MOST_KEYS * 3 {
            keys.note(&number.to_string(), |record| record.add(0, Verdict::Allowed, false));
        }
        refuse(&mut keys, "late", 40);
        for number in 0..MOST_KEYS * 3 {
            keys.note(&format!("x{number}"), |record| record.add(0, Verdict::Allowed, false));
        }
        assert!(keys.has_evicted() && keys.records.len() <= MOST_KEYS);
        let KeyCount { count, is_estimate } = keys.number();
        assert!(is_estimate && count.abs_diff(6 * MOST_KEYS) < MOST_KEYS / 5, "{count}");
        let top = keys.top(2, |record| record.refused);
        let counts: Vec<(&str, u64)> =
            top.iter().map(|(key, record)| (*key, record.refused)).collect();
        assert_eq!(counts, [("early", 50), ("late", 40)]);
    }

    #[test]
    fn estimates_are_close_and_repetition_does_not_matter() {
        for count in [1, 100, 10_000, 300_000, 1_000_000] {
            let mut distinct = Distinct::default();
            for number in (0..count).chain(0..count / 2) {
                distinct.add(&format!("key-{number}"));
            }
            let estimate = distinct.estimate();
            assert!(estimate.abs_diff(count) * 33 <= count.max(33), "{count}: {estimate}");
        }
    }
}
