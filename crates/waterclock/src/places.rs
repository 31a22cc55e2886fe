//! How many keys a store remembers, how much memory their logs take, and which policy has how much of both.
//!
//! Half of each is shared out: each table is guaranteed `max / (2 · tables)`. The rest is lent to tables that need
//! more than that. So a flood of one policy's keys leaves every other policy its share.
//!
//! When no place is left, keys that are fresh go first. Then the table that has borrowed most gives some up, those nearest
//! to fresh of which at most half is used, unless its policy wants to keep them all ([`OnFull::Refuse`]).
//!
//! When a table has no memory left for logs, they get coarser (`Decide::coarsen`): a key's own when it grows, the
//! longest ones when a new key comes. That admits nothing more.

use std::cmp::Reverse;

use waterclock_core::Timestamp;

use crate::pool::{Part, Pool};
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, Weak, lock};
use crate::table::Table;

/// How many shards are looked through for room: enough to find it soon, few enough to wait only briefly.
const SHARDS_SEARCHED: usize = 8;
/// How many tables are, for keys that give way.
const TABLES_SEARCHED: usize = 4;

/// Memory of logs is counted in so many bytes, the size of an entry.
const LOG_UNIT: usize = 16;
/// What the first entry of a log takes: the log itself, and room for a few.
const FIRST_LOG: usize = 8;
/// Bytes for logs, unless another number is given.
pub(crate) const DEFAULT_MAX_BYTES: usize = 256 << 20;

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

/// What a policy's keys take of the places and of the memory that all policies of a store share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyUsage {
    /// How many keys are remembered, those that became fresh since the last sweep included.
    pub keys: usize,
    /// How many places no other policy can take.
    pub guaranteed_keys: usize,
    /// How many bytes the logs of the keys take.
    pub log_bytes: usize,
    /// How many bytes no other policy can take.
    pub guaranteed_log_bytes: usize,
}

/// The places of all tables of a store, and the memory of their logs.
#[derive(Debug)]
pub(crate) struct Places {
    keys: Pool,
    logs: Pool,
    /// The tables that both are shared out among; none if there is only one, which may have them all.
    tables: Mutex<Vec<(Arc<Parts>, Weak<Table>)>>,
    /// Whether tables came or went since shares were last computed.
    is_changed: AtomicBool,
    /// The table to look through next for fresh keys.
    sweep: AtomicUsize,
    overflowed: AtomicU64,
    evicted: AtomicU64,
    coarsened: AtomicU64,
    overrides: AtomicUsize,
    max_overrides: AtomicUsize,
}

/// How many overrides a store keeps by default.
const DEFAULT_MAX_OVERRIDES: usize = 1_000_000;

/// One table's parts of both pools.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) keys: Part,
    pub(crate) logs: Part,
}

impl Places {
    /// Places for so many keys, and so many bytes for their logs.
    pub(crate) fn new(max_keys: usize, max_bytes: usize) -> Self {
        Self {
            keys: Pool::new(max_keys),
            logs: Pool::new(max_bytes / LOG_UNIT),
            tables: Mutex::new(Vec::new()),
            is_changed: AtomicBool::new(false),
            sweep: AtomicUsize::new(0),
            overflowed: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            coarsened: AtomicU64::new(0),
            overrides: AtomicUsize::new(0),
            max_overrides: AtomicUsize::new(DEFAULT_MAX_OVERRIDES),
        }
    }

    pub(crate) fn max(&self) -> usize {
        self.keys.max()
    }

    pub(crate) fn taken(&self) -> usize {
        self.keys.taken()
    }

    pub(crate) fn max_bytes(&self) -> usize {
        self.logs.max() * LOG_UNIT
    }

    pub(crate) fn set_max_bytes(&self, max: usize) {
        let is_shared = !lock(&self.tables).is_empty();
        self.logs.set_max(max / LOG_UNIT, is_shared);
        if is_shared {
            self.change_shares();
        }
    }

    /// How many bytes all logs take.
    pub(crate) fn log_bytes(&self) -> usize {
        self.logs.taken() * LOG_UNIT
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

    /// How many overrides there are, those that have expired since the last sweep included.
    pub(crate) fn overrides(&self) -> usize {
        self.overrides.load(Ordering::Relaxed)
    }

    pub(crate) fn max_overrides(&self) -> usize {
        self.max_overrides.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max_overrides(&self, max: usize) {
        self.max_overrides.store(max, Ordering::Relaxed);
    }

    /// Counts one more override; `false` if there are as many as there may be.
    pub(crate) fn take_override(&self) -> bool {
        let max = self.max_overrides();
        let more = |taken: usize| (taken < max).then_some(taken + 1);
        self.overrides.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// The same where it was kept before, by a snapshot.
    pub(crate) fn take_override_anyway(&self) {
        self.overrides.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn drop_override(&self) {
        self.overrides.fetch_sub(1, Ordering::Relaxed);
    }

    /// How often logs were made coarser.
    pub(crate) fn coarsened(&self) -> u64 {
        self.coarsened.load(Ordering::Relaxed)
    }

    pub(crate) fn count_coarsened(&self) {
        self.coarsened.fetch_add(1, Ordering::Relaxed);
    }

    /// A table shares the places from now on, until it is dropped.
    pub(crate) fn share_with(&self, parts: &Arc<Parts>, table: Weak<Table>) {
        lock(&self.tables).push((Arc::clone(parts), table));
        self.change_shares();
    }

    /// How many tables share the places.
    pub(crate) fn tables(&self) -> usize {
        self.share_out();
        lock(&self.tables).len()
    }

    /// A table came or went. Shares are computed by the next call that needs them: policies may come by the thousand.
    pub(crate) fn change_shares(&self) {
        // In this order: a thread that computes shares has seen the zeros, and replaces them.
        self.keys.stop_lending();
        self.logs.stop_lending();
        self.is_changed.store(true, Ordering::Release);
    }

    /// Computes shares, if that is to be done; whether it was.
    #[cold]
    pub(crate) fn share_out(&self) -> bool {
        if !self.is_changed.load(Ordering::Relaxed) {
            return false;
        }
        let mut tables = lock(&self.tables);
        if !self.is_changed.swap(false, Ordering::Acquire) {
            return false;
        }
        tables.retain(|(_, table)| table.strong_count() > 0);
        self.keys.share_out(tables.iter().map(|(parts, _)| &parts.keys));
        self.logs.share_out(tables.iter().map(|(parts, _)| &parts.logs));
        true
    }

    /// Whether there may be a place for one more key of a table.
    #[inline]
    pub(crate) fn has_place(&self, parts: &Parts) -> bool {
        // No more are borrowed than are taken.
        self.keys.can_lend(self.taken().cast_signed() + 1) || self.has_place_at_length(parts)
    }

    #[inline(never)]
    fn has_place_at_length(&self, parts: &Parts) -> bool {
        self.share_out();
        self.keys.has_room(&parts.keys, 1)
    }

    /// Whether there may be memory for the log of one more key of a table.
    pub(crate) fn has_log_room(&self, parts: &Parts) -> bool {
        self.logs.has_room(&parts.logs, FIRST_LOG)
            || self.share_out() && self.logs.has_room(&parts.logs, FIRST_LOG)
    }

    /// Takes a place for one more key of a table, if there is one.
    pub(crate) fn take(&self, parts: &Parts) -> bool {
        self.keys.take(&parts.keys, 1) || self.share_out() && self.keys.take(&parts.keys, 1)
    }

    /// Takes a place whether or not there is one.
    pub(crate) fn take_anyway(&self, parts: &Parts) {
        self.keys.take_anyway(&parts.keys, 1);
    }

    pub(crate) fn give_back(&self, parts: &Parts, keys: usize) {
        self.keys.give_back(&parts.keys, keys);
    }

    /// Counts that the logs of a shard take so many bytes and not so many as before; `false` if there is no room for
    /// more. The bytes are taken all the same where `anyway` says so.
    pub(crate) fn count_logs(
        &self,
        parts: &Parts,
        before: usize,
        after: usize,
        anyway: bool,
    ) -> bool {
        let (before, after) = (before.div_ceil(LOG_UNIT), after.div_ceil(LOG_UNIT));
        let Some(more) = after.checked_sub(before) else {
            self.logs.give_back(&parts.logs, before - after);
            return true;
        };
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let take = || self.logs.take(&parts.logs, more);
        if more == 0 || take() || self.share_out() && take() {
            return true;
        }
        if anyway {
            self.logs.take_anyway(&parts.logs, more);
        }
        anyway
    }

    /// How many of both a table has taken, and how many are guaranteed.
    pub(crate) fn usage_of(&self, parts: &Parts) -> KeyUsage {
        self.share_out();
        KeyUsage {
            keys: parts.keys.taken(),
            guaranteed_keys: parts.keys.share(),
            log_bytes: parts.logs.taken() * LOG_UNIT,
            guaranteed_log_bytes: parts.logs.share() * LOG_UNIT,
        }
    }

    /// A table is gone.
    pub(crate) fn give_all_back(&self, parts: &Parts) {
        self.keys.give_back(&parts.keys, parts.keys.taken());
        self.logs.give_back(&parts.logs, parts.logs.taken());
        self.change_shares();
    }

    /// Tries to find a place for a new key of a table. Locks shards: the caller holds none.
    #[cold]
    pub(crate) fn make_room(&self, asking: &Table, now: Timestamp) {
        for _ in 0..SHARDS_SEARCHED {
            if asking.has_place() {
                return;
            }
            let next = self.sweep.fetch_add(1, Ordering::Relaxed);
            let swept = {
                let tables = lock(&self.tables);
                tables.get(next % tables.len().max(1)).and_then(|(_, table)| table.upgrade())
            };
            swept.as_deref().unwrap_or(asking).sweep_one(now);
        }
        if !asking.has_log_room() {
            // Its own logs get coarser, the longest first; where all are short, its keys give way as for a place.
            let _ = (0..SHARDS_SEARCHED).any(|_| asking.coarsen_some(now));
        }
        let is_found = |table: &Table| (0..SHARDS_SEARCHED).any(|_| table.free_some(now) > 0);
        if !self.has_place(asking.parts()) {
            // A place that another table gives up may be lent again; one of its own is in any case.
            let _ =
                self.largest_borrowers().iter().any(|table| is_found(table)) || is_found(asking);
        } else if !asking.has_log_room() {
            // Other tables' places are of no use: their memory for logs is their own.
            is_found(asking);
        }
    }

    /// The tables that have borrowed the most places of those that give way, the largest first. One that keeps to its
    /// share forgets nothing for others: they could not have its places.
    fn largest_borrowers(&self) -> Vec<Arc<Table>> {
        let mut borrowers: Vec<(usize, Weak<Table>)> = {
            let tables = lock(&self.tables);
            let borrowed = |parts: &Parts| parts.keys.taken().saturating_sub(parts.keys.share());
            let each = tables.iter().map(|(parts, table)| (borrowed(parts), table));
            each.filter(|(borrowed, _)| *borrowed > 0)
                .map(|(n, table)| (n, table.clone()))
                .collect()
        };
        borrowers.sort_unstable_by_key(|(borrowed, _)| Reverse(*borrowed));
        let tables = borrowers.into_iter().filter_map(|(_, table)| table.upgrade());
        tables.filter(|table| table.gives_way()).take(TABLES_SEARCHED).collect()
    }

    /// Panics unless the counts are those of the tables, which no other thread uses meanwhile.
    #[cfg(all(test, shuttle))]
    pub(crate) fn assert_counted(&self) {
        self.share_out();
        let tables = lock(&self.tables);
        self.keys.assert_counted(tables.iter().map(|(parts, _)| &parts.keys));
        self.logs.assert_counted(tables.iter().map(|(parts, _)| &parts.logs));
    }
}
