//! The record of a reservation, so that any node can settle it.
//!
//! Numbers first, seven bytes each, because a script writes them: when it expires, how many numbers follow, and what is
//! held of each key (`reserve.lua`). None follow while it is pending. Then what only nodes read: the charges, the keys
//! they are for, and how it was settled.

use waterclock::{Cost, Settled, StoreError, Timestamp};
use waterclock_core::store::ReservedUnits;

use crate::call::{KeyCharge, foreign};
use crate::keyspace::{KEY_LETTERS, TAG_DIGITS, Tag};
use crate::prefix::{Parts, WrittenBy};
use crate::shape::{NUMBER, put};

/// What a script writes for a limit that holds nothing.
const NOTHING: u64 = 1 << 54;
/// A script sees no cost above this one.
const MOST: u64 = 1 << 53;

/// A reservation as it is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Note {
    pub(super) expires_at: Timestamp,
    /// The cost of each charge, and which key it is for.
    pub(super) charges: Vec<(Cost, usize)>,
    pub(super) keys: Vec<NotedKey>,
    /// Whether it is given back when it expires.
    pub(super) releases: bool,
    /// What is held of each key; nothing while it is about to be made.
    pub(super) held: Vec<HeldUnits>,
    pub(super) settled: Option<Settled>,
    /// Whether its keys may still be charged as before it was settled.
    pub(super) is_settling: bool,
}

/// A key that is charged, under a policy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NotedKey {
    pub(super) policy: String,
    pub(super) hash: [u8; KEY_LETTERS],
    /// The policy as it was when it was charged.
    pub(super) definition: Tag,
    /// By which limits it was charged, where no tag says so.
    pub(super) by: Option<WrittenBy>,
    limits: usize,
}

/// What is held of one key.
#[derive(Clone, Debug)]
pub(super) struct HeldUnits {
    /// Of the limits that can refuse.
    pub(super) granted: u64,
    /// Of every limit.
    pub(super) held: ReservedUnits,
}

impl Note {
    /// A reservation that is about to be made.
    pub(super) fn pending(keys: &[KeyCharge], charges: &[(Cost, usize)], releases: bool) -> Self {
        let noted = |key: &KeyCharge| NotedKey {
            policy: key.entry.policy.name().to_owned(),
            hash: key.record.hash(),
            definition: key.entry.tag(),
            by: key.writes_by(),
            limits: key.entry.policy.limits().len(),
        };
        let (keys, charges) = (keys.iter().map(noted).collect(), charges.to_vec());
        Self { charges, keys, releases, ..Self::default() }
    }

    pub(super) fn is_pending(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether it is for just these charges, whatever became of the policies meanwhile.
    pub(super) fn is_for(&self, other: &Self) -> bool {
        let same = |(a, b): (&NotedKey, &NotedKey)| (&a.policy, a.hash) == (&b.policy, b.hash);
        self.charges == other.charges
            && self.keys.len() == other.keys.len()
            && self.keys.iter().zip(&other.keys).all(same)
    }

    /// All of it.
    pub(super) fn write(&self) -> Vec<u8> {
        let numbers: Vec<u64> = self.held.iter().flat_map(HeldUnits::numbers).collect();
        let mut bytes = Vec::new();
        let head = [self.expires_at.as_nanos() / 1_000, numbers.len() as u64];
        for number in head.iter().chain(&numbers) {
            put(&mut bytes, *number);
        }
        bytes.extend(self.about());
        bytes
    }

    /// What only nodes read.
    pub(super) fn about(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        count(&mut bytes, self.charges.len());
        for (cost, key) in &self.charges {
            write_cost(&mut bytes, cost);
            count(&mut bytes, *key);
        }
        count(&mut bytes, self.keys.len());
        for NotedKey { policy, hash, definition, by, limits } in &self.keys {
            count(&mut bytes, policy.len());
            bytes.extend_from_slice(policy.as_bytes());
            bytes.extend_from_slice(hash);
            bytes.extend_from_slice(definition.digits());
            let by = by.as_ref().map_or_else(Vec::new, WrittenBy::bytes);
            count(&mut bytes, by.len());
            bytes.extend_from_slice(&by);
            count(&mut bytes, *limits);
        }
        bytes.push(u8::from(self.releases));
        if let Some(Settled { is_cancelled, used, .. }) = &self.settled {
            bytes.push(u8::from(*is_cancelled) + 2 * u8::from(self.is_settling));
            used.iter().for_each(|used| write_cost(&mut bytes, used));
        }
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, StoreError> {
        Self::parse(&mut Reader(bytes)).ok_or_else(foreign)
    }

    fn parse(from: &mut Reader<'_>) -> Option<Self> {
        let expires_at = Timestamp::from_micros(from.number()?);
        let count = usize::try_from(from.number()?).ok()?;
        let numbers = from.take(count.checked_mul(NUMBER)?)?;
        let mut charges = Vec::new();
        for _ in 0..from.count()? {
            charges.push((from.cost()?, from.count()?));
        }
        let mut keys = Vec::new();
        for _ in 0..from.count()? {
            let length = from.count()?;
            let policy = std::str::from_utf8(from.take(length)?).ok()?.to_owned();
            let (hash, definition) = (from.array()?, Tag::read(from.take(TAG_DIGITS)?)?);
            let length = from.count()?;
            let by = Parts::of(from.take(length)?)?.by;
            keys.push(NotedKey { policy, hash, definition, by, limits: from.count()? });
        }
        if charges.iter().any(|(_, key)| *key >= keys.len()) {
            return None;
        }
        let [releases] = from.array()?;
        let mut note =
            Self { expires_at, charges, keys, releases: releases == 1, ..Self::default() };
        if count > 0 {
            note.held = note.parse_held(&mut Reader(numbers))?;
        }
        note.settled = note.parse_settled(from)?;
        from.0.is_empty().then_some(note)
    }

    fn parse_held(&self, from: &mut Reader<'_>) -> Option<Vec<HeldUnits>> {
        let held = (0..self.keys.len()).map(|key| self.parse_units(key, from)).collect();
        if from.0.is_empty() { held } else { None }
    }

    /// What is held of one of the keys.
    fn parse_units(&self, key: usize, from: &mut Reader<'_>) -> Option<HeldUnits> {
        // With several units, numbers above what a script can represent are equal.
        let cost = self.cost_of(key).plain();
        let units = |n: u64| if n == MOST { cost.unwrap_or(n) } else { n };
        let at = Timestamp::from_micros(from.number()?);
        let granted = units(from.number()?);
        // The number of limits is not to be trusted: nothing is allocated for it.
        let mut parts = Vec::new();
        for _ in 0..self.keys[key].limits {
            let (part, ends) = (from.number()?, from.number()?);
            let ends = (ends > 0).then(|| Timestamp::from_micros(ends));
            parts.push((part != NOTHING).then(|| (units(part), ends)));
        }
        Some(HeldUnits { granted, held: ReservedUnits::new(at, parts) })
    }

    /// What a slot has noted that it holds of some of the keys (`hold.lua`).
    pub(super) fn noted(&self, noted: &[u8], keys: &[usize]) -> Result<Vec<HeldUnits>, StoreError> {
        let mut from = Reader(noted);
        let mut units = |key: &usize| {
            // Before it are the marks by which it is undone.
            from.take(TAG_DIGITS + 2 + NUMBER + 4 * NUMBER * self.keys[*key].limits)?;
            self.parse_units(*key, &mut from)
        };
        keys.iter().map(|key| units(key).ok_or_else(foreign)).collect()
    }

    fn parse_settled(&mut self, from: &mut Reader<'_>) -> Option<Option<Settled>> {
        if from.0.is_empty() {
            return Some(None);
        }
        let [how] = from.array()?;
        self.is_settling = how >= 2;
        let mut used = Vec::with_capacity(self.charges.len());
        for _ in &self.charges {
            used.push(from.cost()?);
        }
        Some(Some(Settled::new(how % 2 == 1, self.held_by_charge(), used)))
    }

    /// What is held, in the order of the charges.
    pub(super) fn held_by_charge(&self) -> Vec<Cost> {
        let granted = |(_, key): &(Cost, usize)| {
            let granted = self.held.get(*key).map_or(0, |held| held.granted);
            self.cost_of(*key).granted(granted)
        };
        self.charges.iter().map(granted).collect()
    }

    /// What all charges for one of the keys come to.
    fn cost_of(&self, key: usize) -> Cost {
        let of_key = self.charges.iter().filter(|(_, of)| *of == key);
        of_key.fold(Cost::from(0), |sum, (cost, _)| sum.plus(cost))
    }
}

impl HeldUnits {
    fn numbers(&self) -> Vec<u64> {
        let mut numbers = vec![self.held.at().as_nanos() / 1_000, self.granted.min(MOST)];
        for part in self.held.parts() {
            let ends = part.and_then(|(_, ends)| ends).map_or(0, |ends| ends.as_nanos() / 1_000);
            numbers.extend([part.map_or(NOTHING, |(units, _)| units.min(MOST)), ends]);
        }
        numbers
    }
}

fn count(bytes: &mut Vec<u8>, n: usize) {
    bytes.extend_from_slice(&u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes());
}

#[cfg(feature = "fuzzing")]
pub(crate) fn rewritten(record: &[u8]) -> Option<Vec<u8>> {
    Note::read(record).ok().map(|note| note.write())
}

/// How many units are named, and of each its name and how much; or none, and one number for all.
fn write_cost(bytes: &mut Vec<u8>, cost: &Cost) {
    count(bytes, cost.units().count());
    if let Some(n) = cost.plain() {
        bytes.extend_from_slice(&n.to_be_bytes());
    }
    for (unit, n) in cost.units() {
        count(bytes, unit.len());
        bytes.extend_from_slice(unit.as_bytes());
        bytes.extend_from_slice(&n.to_be_bytes());
    }
}

/// Takes a record apart.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(u32::from_be_bytes(self.array()?)).ok()
    }

    fn cost(&mut self) -> Option<Cost> {
        let named = self.count()?;
        if named == 0 {
            return Some(Cost::from(u64::from_be_bytes(self.array()?)));
        }
        let mut units: Vec<(Box<str>, u64)> = Vec::new();
        for _ in 0..named {
            let length = self.count()?;
            let unit = std::str::from_utf8(self.take(length)?).ok()?;
            units.push((unit.into(), u64::from_be_bytes(self.array()?)));
        }
        Cost::of_few_units(units).ok()
    }

    /// A number that a script wrote, an instant or units.
    fn number(&mut self) -> Option<u64> {
        let number = self.take(NUMBER)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        (number <= NOTHING).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_limits_that_no_policy_has_takes_no_memory() {
        let key = NotedKey {
            policy: "p".to_owned(),
            hash: [b'h'; KEY_LETTERS],
            definition: Tag::ANY,
            by: None,
            limits: 1,
        };
        let held = ReservedUnits::new(Timestamp::ZERO, [Some((5, None))]);
        let mut note = Note {
            charges: vec![(Cost::from(5), 0)],
            keys: vec![key],
            held: vec![HeldUnits { granted: 5, held }],
            ..Note::default()
        };
        assert!(Note::read(&note.write()).is_ok());
        note.keys[0].limits = usize::try_from(u32::MAX).unwrap();
        assert!(Note::read(&note.write()).is_err());
    }
}
