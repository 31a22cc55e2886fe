//! What each key asked for and what became of it, for a bounded number of keys.

use std::collections::HashMap;

/// So many keys are told apart; those that come later are counted together.
const MOST_KEYS: usize = 500_000;

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

/// All keys.
#[derive(Default)]
pub(crate) struct Keys {
    places: HashMap<Box<str>, u32>,
    records: Vec<KeyRecord>,
    /// Keys that found no place.
    others: KeyRecord,
}

impl Keys {
    /// Where a key's record is; `None` if there is no place for it any more.
    pub(super) fn place(&mut self, key: &str) -> Option<u32> {
        if let Some(place) = self.places.get(key) {
            return Some(*place);
        }
        let place =
            u32::try_from(self.records.len()).ok().filter(|_| self.records.len() < MOST_KEYS)?;
        self.places.insert(key.into(), place);
        self.records.push(KeyRecord::default());
        Some(place)
    }

    pub(super) fn record(&mut self, place: Option<u32>) -> &mut KeyRecord {
        let known = place.and_then(|place| usize::try_from(place).ok());
        known.and_then(|place| self.records.get_mut(place)).unwrap_or(&mut self.others)
    }

    /// How many are told apart.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// How many of them were refused at least once.
    pub(crate) fn refused(&self) -> usize {
        self.records.iter().filter(|record| record.refused > 0).count()
    }

    /// What became of those that are not told apart.
    pub(crate) fn others(&self) -> &KeyRecord {
        &self.others
    }

    /// Those with the most of something, in a fixed order; none that has nothing of it.
    pub(crate) fn top(
        &self,
        count: usize,
        of: impl Fn(&KeyRecord) -> u64,
    ) -> Vec<(&str, KeyRecord)> {
        let mut all: Vec<(&str, KeyRecord)> = self
            .places
            .iter()
            .filter_map(|(key, place)| {
                Some((&**key, *self.records.get(usize::try_from(*place).ok()?)?))
            })
            .filter(|(_, record)| of(record) > 0)
            .collect();
        let order = |one: &(&str, KeyRecord), other: &(&str, KeyRecord)| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_first_and_then_by_name() {
        let mut keys = Keys::default();
        for (key, refused) in [("b", 2), ("a", 2), ("none", 0), ("most", 9), ("few", 1)] {
            let place = keys.place(key);
            (0..refused).for_each(|t_us| keys.record(place).add(t_us, Some(Some(7))));
        }
        let top: Vec<&str> =
            keys.top(3, |record| record.refused).into_iter().map(|(key, _)| key).collect();
        assert_eq!(top, ["most", "a", "b"]);
        assert_eq!(keys.top(10, |record| record.refused).len(), 4);
        assert_eq!((keys.len(), keys.refused()), (5, 4));
    }
}
