//! How many keys a store remembers, and whose they are.
//!
//! Half of the places are shared out: each table is guaranteed `max / (2 · tables)`. The rest is lent to whoever needs
//! more than that. So a flood of one policy's keys leaves every other policy its share.
//!
//! When no place is left, keys that are fresh go first. Then the table with the most keys gives some up, those nearest
//! to fresh of which at most half is used, unless its policy wants to keep them all ([`OnFull::Refuse`]).

use std::cmp::Reverse;

use waterclock_core::Timestamp;

use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, Weak, lock};
use crate::table::Table;

/// How many shards are looked through for room: enough to find it soon, few enough to wait only briefly.
const SHARDS_SEARCHED: usize = 8;
/// How many tables are, for keys that give way.
const TABLES_SEARCHED: usize = 4;

/// What happens to a new key when there is no place for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnFull {
    /// Keys of which at most half is used are forgotten for it, those nearest to fresh first. A forgotten key starts
    /// fresh: it may be admitted up to half a capacity more, each time. Debts, places that are held, breakers, keys in
    /// count-refusals mode and keys of which more than half is used are never forgotten.
    #[default]
    Evict,
    /// No key is forgotten that is not fresh. New keys share overflow entries, and may be refused for each other.
    Refuse,
}

impl OnFull {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Evict, Self::Refuse];

    /// The one that configuration spells like this.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }

    /// As configuration spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Evict => "evict",
            Self::Refuse => "refuse",
        }
    }
}

/// The places of all tables of a store.
#[derive(Debug)]
pub(crate) struct Places {
    max: usize,
    taken: AtomicUsize,
    /// How many of them are beyond their tables' shares. For a moment it may be off, even below zero.
    borrowed: AtomicUsize,
    /// How many may be; zero while shares are to be computed.
    lendable: AtomicUsize,
    /// The tables that they are shared out among; none if there is only one, which may have them all.
    tables: Mutex<Vec<(Arc<Part>, Weak<Table>)>>,
    /// Whether tables came or went since shares were last computed.
    is_changed: AtomicBool,
    /// The table to look through next for fresh keys.
    sweep: AtomicUsize,
    overflowed: AtomicU64,
    evicted: AtomicU64,
}

/// One table's places: how many it has taken, in the upper half, and how many are guaranteed, in the lower.
#[derive(Debug, Default)]
pub(crate) struct Part(AtomicU64);

impl Part {
    pub(crate) fn taken(&self) -> usize {
        Counts::from(self.0.load(Ordering::Relaxed)).taken as usize
    }

    /// Takes so many places more; returns how many of them are beyond the share.
    fn take(&self, places: u32) -> isize {
        let added = u64::from(Counts { taken: places, share: 0 });
        let before = Counts::from(self.0.fetch_add(added, Ordering::Relaxed));
        Counts { taken: before.taken + places, ..before }.beyond() - before.beyond()
    }

    /// Gives so many back; returns how many of them were beyond the share.
    fn give_back(&self, places: u32) -> isize {
        let removed = u64::from(Counts { taken: places, share: 0 });
        let before = Counts::from(self.0.fetch_sub(removed, Ordering::Relaxed));
        before.beyond() - Counts { taken: before.taken - places, ..before }.beyond()
    }

    /// Changes the share; returns how many more places are beyond it.
    fn set_share(&self, share: u32) -> isize {
        let next = |counts| Some(Counts { share, ..Counts::from(counts) }.into());
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(before) | Err(before) => {
                let before = Counts::from(before);
                Counts { share, ..before }.beyond() - before.beyond()
            }
        }
    }

    fn has_own(&self) -> bool {
        let Counts { taken, share } = self.0.load(Ordering::Relaxed).into();
        taken < share
    }
}

#[derive(Clone, Copy)]
struct Counts {
    taken: u32,
    share: u32,
}

impl Counts {
    fn beyond(self) -> isize {
        self.taken.saturating_sub(self.share) as isize
    }
}

impl From<u64> for Counts {
    fn from(counts: u64) -> Self {
        Self { taken: (counts >> 32) as u32, share: (counts << 32 >> 32) as u32 }
    }
}

impl From<Counts> for u64 {
    fn from(Counts { taken, share }: Counts) -> Self {
        u64::from(taken) << 32 | u64::from(share)
    }
}

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        let max = max.clamp(1, u32::MAX as usize);
        Self {
            max,
            taken: AtomicUsize::new(0),
            borrowed: AtomicUsize::new(0),
            lendable: AtomicUsize::new(max),
            tables: Mutex::new(Vec::new()),
            is_changed: AtomicBool::new(false),
            sweep: AtomicUsize::new(0),
            overflowed: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// How many charges of keys without a place went to overflow entries.
    pub(crate) fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }

    pub(crate) fn count_overflow(&self) {
        self.overflowed.fetch_add(1, Ordering::Relaxed);
    }

    /// How many keys that were not fresh were forgotten for others.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    pub(crate) fn count_evicted(&self, keys: usize) {
        self.evicted.fetch_add(keys as u64, Ordering::Relaxed);
    }

    /// A table shares the places from now on, until it is dropped.
    pub(crate) fn share_with(&self, part: &Arc<Part>, table: Weak<Table>) {
        lock(&self.tables).push((Arc::clone(part), table));
        self.change_shares();
    }

    /// How many tables share the places.
    pub(crate) fn tables(&self) -> usize {
        self.share_out();
        lock(&self.tables).len()
    }

    /// A table came or went. Shares are computed by the next call that needs them: policies may come by the thousand.
    pub(crate) fn change_shares(&self) {
        // In this order: whoever computes shares has seen the zero, and replaces it.
        self.lendable.store(0, Ordering::Relaxed);
        self.is_changed.store(true, Ordering::Release);
    }

    /// Computes shares, if that is to be done; whether it was.
    #[cold]
    fn share_out(&self) -> bool {
        if !self.is_changed.load(Ordering::Relaxed) {
            return false;
        }
        let mut tables = lock(&self.tables);
        if !self.is_changed.swap(false, Ordering::Acquire) {
            return false;
        }
        tables.retain(|(_, table)| table.strong_count() > 0);
        let share = self.max / (2 * tables.len().max(1));
        self.lendable.store(self.max - share * tables.len(), Ordering::Relaxed);
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        tables.iter().for_each(|(part, _)| _ = self.lend(part.set_share(share)));
        true
    }

    /// So many more places are borrowed; returns how many were before.
    fn lend(&self, more: isize) -> isize {
        self.borrowed.fetch_add(more.cast_unsigned(), Ordering::Relaxed).cast_signed()
    }

    fn can_lend(&self, borrowed: isize) -> bool {
        borrowed < self.lendable.load(Ordering::Relaxed).cast_signed()
    }

    /// Whether there may be a place for one more key of a table.
    #[inline]
    pub(crate) fn has_place(&self, part: &Part) -> bool {
        // No more are borrowed than are taken.
        self.can_lend(self.taken().cast_signed()) || self.has_place_at_length(part)
    }

    #[inline(never)]
    fn has_place_at_length(&self, part: &Part) -> bool {
        let can_lend = || self.can_lend(self.borrowed.load(Ordering::Relaxed).cast_signed());
        self.share_out();
        self.taken() < self.max && (part.has_own() || can_lend())
    }

    /// Takes a place for one more key of a table, if there is one.
    pub(crate) fn take(&self, part: &Part) -> bool {
        let is_free = self.taken.fetch_add(1, Ordering::Relaxed) < self.max;
        let beyond = part.take(1);
        let can_lend = beyond == 0 || self.can_lend(self.lend(beyond));
        if is_free && can_lend {
            return true;
        }
        self.give_back(part, 1);
        self.share_out() && self.take(part)
    }

    /// Takes a place whether or not there is one.
    pub(crate) fn take_anyway(&self, part: &Part) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.lend(part.take(1));
    }

    pub(crate) fn give_back(&self, part: &Part, keys: usize) {
        self.lend(-part.give_back(u32::try_from(keys).unwrap_or(u32::MAX)));
        self.taken.fetch_sub(keys, Ordering::Relaxed);
    }

    /// Tries to find a place for a new key of a table. Locks shards: the caller holds none.
    #[cold]
    pub(crate) fn make_room(&self, asking: &Table, now: Timestamp) {
        for _ in 0..SHARDS_SEARCHED {
            if self.has_place(asking.part()) {
                return;
            }
            let next = self.sweep.fetch_add(1, Ordering::Relaxed);
            let swept = {
                let tables = lock(&self.tables);
                tables.get(next % tables.len().max(1)).and_then(|(_, table)| table.upgrade())
            };
            swept.as_deref().unwrap_or(asking).sweep_one(now);
        }
        if !asking.has_place() {
            let is_found = |table: &Table| (0..SHARDS_SEARCHED).any(|_| table.free_some(now) > 0);
            // A place that another table gives up may be lent again; one of its own is in any case.
            let _ = self.largest().iter().any(|table| is_found(table)) || is_found(asking);
        }
    }

    /// The tables with the most keys of those that give way, the largest first.
    fn largest(&self) -> Vec<Arc<Table>> {
        let mut tables: Vec<(usize, Weak<Table>)> = {
            let tables = lock(&self.tables);
            tables.iter().map(|(part, table)| (part.taken(), table.clone())).collect()
        };
        tables.sort_unstable_by_key(|(taken, _)| Reverse(*taken));
        let tables = tables.into_iter().filter_map(|(_, table)| table.upgrade());
        tables.filter(|table| table.gives_way()).take(TABLES_SEARCHED).collect()
    }

    /// Panics unless the counts are those of the tables, which nobody uses meanwhile.
    #[cfg(all(test, shuttle))]
    pub(crate) fn assert_counted(&self) {
        self.share_out();
        assert!(self.lendable.load(Ordering::Relaxed) >= self.max / 2);
        let tables = lock(&self.tables);
        let counts = tables.iter().map(|(part, _)| Counts::from(part.0.load(Ordering::Relaxed)));
        let counts: Vec<Counts> = counts.collect();
        let taken = counts.iter().map(|counts| counts.taken as usize).sum::<usize>();
        let beyond = counts.iter().map(|counts| counts.beyond()).sum::<isize>();
        let borrowed = self.borrowed.load(Ordering::Relaxed).cast_signed();
        assert_eq!((self.taken(), borrowed), (taken, beyond));
    }
}
