//! What each key asked for and what became of it, for a bounded number of keys.

use std::collections::HashMap;
use std::fmt;

use super::distinct::Distinct;
use super::longest::Longest;
use super::when::counted;

/// So many keys are told apart. Before there are more, the lighter half is forgotten: whoever is refused much
/// is found however late they come, and only keys that did little are counted too low.
const MOST_KEYS: usize = 200_000;

/// What is remembered of a key, and how much it matters.
pub trait Record: Copy + Default {
    fn weight(&self) -> (u64, u64);
}

/// All keys, with a record each.
#[derive(Default)]
pub struct Keys<R> {
    records: HashMap<Box<str>, R>,
    has_forgotten: bool,
    distinct: Distinct,
}

impl<R: Record> Keys<R> {
    /// Writes into a key's record.
    pub fn note(&mut self, key: &str, write: impl FnOnce(&mut R)) {
        if let Some(record) = self.records.get_mut(key) {
            return write(record);
        }
        if self.records.len() >= MOST_KEYS {
            self.forget_the_lighter_half();
        }
        self.distinct.add(key);
        write(self.records.entry(key.into()).or_default());
    }

    fn forget_the_lighter_half(&mut self) {
        let mut weights: Vec<(u64, u64)> = self.records.values().map(R::weight).collect();
        let middle = weights.len() / 2;
        let (_, middle, _) = weights.select_nth_unstable(middle);
        let middle = *middle;
        self.records.retain(|_, record| record.weight() > middle);
        self.has_forgotten = true;
    }

    /// Whether there were more than are remembered.
    pub fn has_forgotten(&self) -> bool {
        self.has_forgotten
    }

    /// How many there were.
    pub fn number(&self) -> Number {
        self.number_of(self.records.len(), &self.distinct)
    }

    /// How many of them are such; `distinct` has seen all that ever were.
    pub fn number_such(&self, distinct: &Distinct, is_such: impl Fn(&R) -> bool) -> Number {
        let known = self.records.values().filter(|record| is_such(record)).count();
        self.number_of(known, distinct)
    }

    fn number_of(&self, known: usize, distinct: &Distinct) -> Number {
        let count = if self.has_forgotten { distinct.estimate().max(known) } else { known };
        Number { count, is_estimate: self.has_forgotten }
    }

    /// Those with the most of something, in a fixed order; none that has nothing of it.
    pub fn top(&self, count: usize, of: impl Fn(&R) -> u64) -> Vec<(&str, R)> {
        let mut all: Vec<(&str, R)> = self
            .records
            .iter()
            .filter(|(_, record)| of(record) > 0)
            .map(|(key, record)| (&**key, *record))
            .collect();
        let order = |one: &(&str, R), other: &(&str, R)| {
            of(&other.1).cmp(&of(&one.1)).then(one.0.cmp(other.0))
        };
        if all.len() > count && count > 0 {
            all.select_nth_unstable_by(count - 1, order);
        }
        all.truncate(count);
        all.sort_by(order);
        all
    }
}

/// How many keys: counted, or estimated where there were too many to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    pub count: usize,
    pub is_estimate: bool,
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.is_estimate { "about " } else { "" };
        write!(f, "{about}{}", counted(self.count, "key"))
    }
}

/// What became of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyRecord {
    pub checks: u64,
    pub refused: u64,
    /// What limits in shadow would have refused, whatever the others said.
    pub in_shadow: u64,
    pub first_refused_us: u64,
    pub last_refused_us: u64,
    pub longest: Longest,
}

impl KeyRecord {
    /// A check.
    pub(super) fn add(&mut self, t_us: u64, fate: Fate, is_in_shadow: bool) {
        self.checks += 1;
        self.in_shadow += u64::from(is_in_shadow);
        if let Fate::Refused { wait_us } = fate {
            if self.refused == 0 {
                self.first_refused_us = t_us;
            }
            self.refused += 1;
            self.last_refused_us = t_us;
            self.longest.add(wait_us);
        }
    }
}

/// What became of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Admitted,
    /// Refused, to come back in some time, or never.
    Refused {
        wait_us: Option<u64>,
    },
}

impl Record for KeyRecord {
    fn weight(&self) -> (u64, u64) {
        (self.refused + self.in_shadow, self.checks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(keys: &mut Keys<KeyRecord>, key: &str, times: u64) {
        (0..times).for_each(|t_us| {
            keys.note(key, |record| record.add(t_us, Fate::Refused { wait_us: Some(7) }, false));
        });
    }

    #[test]
    fn the_most_first_and_then_by_name() {
        let mut keys = Keys::<KeyRecord>::default();
        for (key, refused) in [("b", 2), ("a", 2), ("most", 9), ("few", 1)] {
            refuse(&mut keys, key, refused);
        }
        keys.note("none", |record| record.add(1, Fate::Admitted, false));
        let top: Vec<&str> =
            keys.top(3, |record| record.refused).into_iter().map(|(key, _)| key).collect();
        assert_eq!(top, ["most", "a", "b"]);
        assert_eq!(keys.top(10, |record| record.refused).len(), 4);
        assert_eq!(keys.number().to_string(), "5 keys");
        let refused = keys.number_such(&Distinct::default(), |record| record.refused > 0);
        assert_eq!(refused, Number { count: 4, is_estimate: false });
    }

    /// A flood of keys hides nobody, whether they come before it or after.
    #[test]
    fn who_is_refused_much_is_found_whenever_they_come() {
        let mut keys = Keys::<KeyRecord>::default();
        refuse(&mut keys, "early", 50);
        for number in 0..MOST_KEYS * 3 {
            keys.note(&number.to_string(), |record| record.add(0, Fate::Admitted, false));
        }
        refuse(&mut keys, "late", 40);
        for number in 0..MOST_KEYS * 3 {
            keys.note(&format!("x{number}"), |record| record.add(0, Fate::Admitted, false));
        }
        assert!(keys.has_forgotten() && keys.records.len() <= MOST_KEYS);
        let Number { count, is_estimate } = keys.number();
        assert!(is_estimate && count.abs_diff(6 * MOST_KEYS) < MOST_KEYS / 5, "{count}");
        let top = keys.top(2, |record| record.refused);
        let counts: Vec<(&str, u64)> =
            top.iter().map(|(key, record)| (*key, record.refused)).collect();
        assert_eq!(counts, [("early", 50), ("late", 40)]);
    }
}
