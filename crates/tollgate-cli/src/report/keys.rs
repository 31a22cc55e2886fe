//! What each key asked for and what became of it, for a bounded number of keys.

use std::collections::HashMap;

/// So many keys are told apart. Before there are more, the lighter half is forgotten: whoever is refused much
/// is found however late they come, and only keys that did little are counted too low.
const MOST_KEYS: usize = 200_000;

/// What is remembered of a key, and how much it matters.
pub(crate) trait Record: Copy + Default {
    fn weight(&self) -> (u64, u64);
}

/// All keys, with a record each.
#[derive(Default)]
pub(crate) struct Keys<R> {
    records: HashMap<Box<str>, R>,
    has_forgotten: bool,
}

impl<R: Record> Keys<R> {
    /// Writes into a key's record.
    pub(crate) fn note(&mut self, key: &str, write: impl FnOnce(&mut R)) {
        if let Some(record) = self.records.get_mut(key) {
            return write(record);
        }
        if self.records.len() >= MOST_KEYS {
            self.forget_the_lighter_half();
        }
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

    /// How many are remembered.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there were more.
    pub(crate) fn has_forgotten(&self) -> bool {
        self.has_forgotten
    }

    /// How many of them are such.
    pub(crate) fn count(&self, is_such: impl Fn(&R) -> bool) -> usize {
        self.records.values().filter(|record| is_such(record)).count()
    }

    /// Those with the most of something, in a fixed order; none that has nothing of it.
    pub(crate) fn top(&self, count: usize, of: impl Fn(&R) -> u64) -> Vec<(&str, R)> {
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

/// What became of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRecord {
    pub(crate) checks: u64,
    pub(crate) refused: u64,
    pub(crate) first_refused_us: u64,
    pub(crate) last_refused_us: u64,
    /// The longest wait that was advised; of those that are advised at all.
    pub(crate) longest_wait_us: u64,
}

impl KeyRecord {
    /// A check, refused or not.
    pub(super) fn add(&mut self, t_us: u64, refusal: Option<Option<u64>>) {
        self.checks += 1;
        if let Some(wait_us) = refusal {
            if self.refused == 0 {
                self.first_refused_us = t_us;
            }
            self.refused += 1;
            self.last_refused_us = t_us;
            self.longest_wait_us = self.longest_wait_us.max(wait_us.unwrap_or(0));
        }
    }
}

impl Record for KeyRecord {
    fn weight(&self) -> (u64, u64) {
        (self.refused, self.checks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(keys: &mut Keys<KeyRecord>, key: &str, times: u64) {
        (0..times).for_each(|t_us| keys.note(key, |record| record.add(t_us, Some(Some(7)))));
    }

    #[test]
    fn the_most_first_and_then_by_name() {
        let mut keys = Keys::<KeyRecord>::default();
        for (key, refused) in [("b", 2), ("a", 2), ("most", 9), ("few", 1)] {
            refuse(&mut keys, key, refused);
        }
        keys.note("none", |record| record.add(1, None));
        let top: Vec<&str> =
            keys.top(3, |record| record.refused).into_iter().map(|(key, _)| key).collect();
        assert_eq!(top, ["most", "a", "b"]);
        assert_eq!(keys.top(10, |record| record.refused).len(), 4);
        assert_eq!((keys.len(), keys.count(|record| record.refused > 0)), (5, 4));
    }

    /// A flood of keys hides nobody, whether they come before it or after.
    #[test]
    fn who_is_refused_much_is_found_whenever_they_come() {
        let mut keys = Keys::<KeyRecord>::default();
        refuse(&mut keys, "early", 50);
        for number in 0..MOST_KEYS * 3 {
            keys.note(&number.to_string(), |record| record.add(0, None));
        }
        refuse(&mut keys, "late", 40);
        for number in 0..MOST_KEYS * 3 {
            keys.note(&format!("x{number}"), |record| record.add(0, None));
        }
        assert!(keys.has_forgotten() && keys.len() <= MOST_KEYS);
        let top = keys.top(2, |record| record.refused);
        let counts: Vec<(&str, u64)> =
            top.iter().map(|(key, record)| (*key, record.refused)).collect();
        assert_eq!(counts, [("early", 50), ("late", 40)]);
    }
}
