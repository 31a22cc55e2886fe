use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::algorithm::NEVER;

/// The logs of rolling windows, concurrency limits and breakers: state that does not fit a few words.
///
/// A state word holds a handle into this slab; 0 is the empty log. A store keeps one `Logs` beside
/// the words it guards, under the same lock.
#[derive(Clone, Debug)]
pub struct Logs {
    slots: Vec<Log>,
    free: Vec<u32>,
    /// What the logs take, but for what the last one that was opened has grown since.
    bytes: usize,
    /// The one that was opened last, until what it has grown is counted; then [`NONE`].
    last: usize,
    /// What the entries of the last one took when it was opened.
    counted: usize,
}

impl Default for Logs {
    fn default() -> Self {
        Self::new()
    }
}

/// The memory that logs take does not matter to what they say.
impl PartialEq for Logs {
    fn eq(&self, other: &Self) -> bool {
        (&self.slots, &self.free) == (&other.slots, &other.free)
    }
}

impl Eq for Logs {}

/// Admitted (instant, size) pairs, oldest first, and the sum of their sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) entries: VecDeque<(u64, u64)>,
    pub(crate) total: u64,
}

/// Bytes of an entry, and of a log without entries.
const ENTRY: usize = size_of::<(u64, u64)>();
const LOG: usize = size_of::<Log>();

/// No log has this index.
const NONE: usize = usize::MAX;

static EMPTY: Log = Log { entries: VecDeque::new(), total: 0 };

impl Logs {
    /// No logs; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), bytes: 0, last: NONE, counted: 0 }
    }

    /// How much memory the logs take, in bytes: entries that there is room for, and each log itself.
    #[inline]
    pub fn bytes(&mut self) -> usize {
        self.count_last();
        self.bytes
    }

    /// Counts what the log that was opened last has grown. It is not looked at again before the next one is opened: its
    /// memory is far from that one's.
    #[inline]
    fn count_last(&mut self) {
        let Some(log) = self.slots.get(self.last) else { return };
        self.bytes = (self.bytes + log.entries.capacity() * ENTRY).saturating_sub(self.counted);
        self.last = NONE;
    }

    pub(crate) fn get(&self, handle: u64) -> &Log {
        slot(handle).and_then(|i| self.slots.get(i)).unwrap_or(&EMPTY)
    }

    /// The log behind `handle`, made (and `handle` set) if there is none yet.
    #[inline]
    pub(crate) fn open(&mut self, handle: &mut u64) -> &mut Log {
        self.count_last();
        let index = match slot(*handle) {
            Some(index) if index < self.slots.len() => index,
            _ => self.make(handle),
        };
        let log = &mut self.slots[index];
        (self.last, self.counted) = (index, log.entries.capacity() * ENTRY);
        log
    }

    /// Makes a log without entries.
    #[cold]
    fn make(&mut self, handle: &mut u64) -> usize {
        self.bytes += LOG;
        let index = self.free.pop().map_or(self.slots.len(), |index| index as usize);
        if index == self.slots.len() {
            self.slots.push(Log::default());
        }
        *handle = index as u64 + 1;
        index
    }

    /// The (instant, size) pairs of the log behind `handle`, oldest first; times in nanoseconds.
    pub fn entries(&self, handle: u64) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.get(handle).entries.iter().copied()
    }

    /// Makes a log of pairs, oldest first, and returns its handle; for stores that keep it elsewhere.
    pub fn put(&mut self, entries: impl IntoIterator<Item = (u64, u64)>) -> u64 {
        let mut handle = 0;
        let log = self.open(&mut handle);
        for (stamp, size) in entries.into_iter().filter(|(_, size)| *size > 0) {
            // As they are: what was apart stays apart.
            log.total = log.total.saturating_add(size);
            log.entries.push_back((stamp, size));
        }
        if log.entries.is_empty() {
            self.close(&mut handle);
        }
        handle
    }

    /// Frees the log behind `handle` with its memory and makes the handle empty.
    pub(crate) fn close(&mut self, handle: &mut u64) {
        self.count_last();
        if let Some(i) = slot(*handle)
            && let Some(log) = self.slots.get_mut(i)
            && let Ok(index) = u32::try_from(i)
        {
            self.bytes = self.bytes.saturating_sub(log.entries.capacity() * ENTRY + LOG);
            *log = Log::default();
            self.free.push(index);
        }
        *handle = 0;
    }
}

fn slot(handle: u64) -> Option<usize> {
    usize::try_from(handle).ok()?.checked_sub(1)
}

impl Log {
    /// Index of the first entry that still counts at `now`, and the sum from there on.
    #[inline]
    pub(crate) fn live(&self, now: u64, period: u64) -> (usize, u64) {
        let (mut first, mut total) = (0, self.total);
        // Mostly the first one counts, or the second: an iterator over all would cost more than that.
        while let Some(&(stamp, size)) = self.entries.get(first) {
            if now < stamp.saturating_add(period) {
                return (first, total);
            }
            first += 1;
            total -= size;
        }
        (first, 0)
    }

    /// How long until `units` fit beside what still counts then.
    pub(crate) fn wait(&self, now: u64, period: u64, units: u64, limit: u64) -> u64 {
        let (first, used) = self.live(now, period);
        let mut over = used.saturating_add(units).saturating_sub(limit);
        if over == 0 {
            return 0;
        }
        for &(stamp, size) in self.entries.range(first..) {
            if size >= over {
                // What was read from elsewhere may be out of order, and then not live.
                return stamp.saturating_add(period).saturating_sub(now);
            }
            over -= size;
        }
        NEVER
    }

    /// Removes so many entries, and what is left is so much: as [`live`](Self::live) says.
    #[inline]
    pub(crate) fn drop_oldest(&mut self, entries: usize, left: u64) {
        self.total = left;
        for _ in 0..entries {
            self.entries.pop_front();
        }
    }

    /// Removes the entries that no longer count.
    pub(crate) fn prune(&mut self, now: u64, period: u64) {
        while let Some(&(stamp, size)) = self.entries.front()
            && now >= stamp.saturating_add(period)
        {
            self.total -= size;
            self.entries.pop_front();
        }
    }

    /// Appends; the same instant twice is one entry.
    pub(crate) fn push(&mut self, stamp: u64, size: u64) {
        if size == 0 {
            return;
        }
        self.total += size;
        match self.entries.back_mut() {
            Some((last, sum)) if *last >= stamp => *sum += size,
            _ => self.entries.push_back((stamp, size)),
        }
    }

    /// Puts an entry in its place; the same stamp twice is one entry.
    pub(crate) fn insert(&mut self, stamp: u64, size: u64) {
        if size == 0 {
            return;
        }
        self.total += size;
        match self.entries.binary_search_by_key(&stamp, |(stamp, _)| *stamp) {
            Ok(i) => self.entries[i].1 += size,
            Err(i) => self.entries.insert(i, (stamp, size)),
        }
    }

    /// Drops the oldest units until at most `most` are left.
    pub(crate) fn keep_newest(&mut self, most: u64) {
        while self.total > most
            && let Some((_, size)) = self.entries.front_mut()
        {
            let cut = (self.total - most).min(*size);
            *size -= cut;
            self.total -= cut;
            if *size == 0 {
                self.entries.pop_front();
            }
        }
    }

    /// Joins the oldest entries until at most so many are left. What is joined counts for longer.
    pub(crate) fn join_oldest(&mut self, most: u64) {
        while self.entries.len() as u64 > most.max(1)
            && let Some((_, size)) = self.entries.pop_front()
            && let Some((_, next)) = self.entries.front_mut()
        {
            *next += size;
        }
    }

    /// Joins neighbours that are alike, two by two, and gives some memory back. What is joined counts for as long as the
    /// later of both.
    pub(crate) fn join_pairs(&mut self, are_alike: impl Fn(u64, u64) -> bool) {
        let (mut from, mut to) = (0, 0);
        while let Some(&first) = self.entries.get(from) {
            let second = self.entries.get(from + 1).filter(|(_, size)| are_alike(first.1, *size));
            let joined = second.map(|(stamp, size)| (*stamp, first.1 + size));
            from += if joined.is_some() { 2 } else { 1 };
            self.entries[to] = joined.unwrap_or(first);
            to += 1;
        }
        self.entries.truncate(to);
        self.give_memory_back();
    }

    /// Drops the older half, and gives some memory back.
    pub(crate) fn drop_older_half(&mut self) {
        for _ in 0..self.entries.len() / 2 {
            if let Some((_, size)) = self.entries.pop_front() {
                self.total -= size;
            }
        }
        self.give_memory_back();
    }

    /// There stays room for as many entries as there are, so that the next ones need no more.
    fn give_memory_back(&mut self) {
        self.entries.shrink_to(2 * self.entries.len().saturating_sub(1));
    }

    /// Dates entries that are later than `latest` back to it.
    pub(crate) fn redate(&mut self, latest: u64) {
        let mut units = 0;
        while let Some(&(stamp, size)) = self.entries.back()
            && stamp > latest
        {
            self.entries.pop_back();
            self.total -= size;
            units += size;
        }
        if units > 0 {
            self.push(latest, units);
        }
    }

    /// Takes back up to `units` of what was logged with this stamp.
    pub(crate) fn take_at(&mut self, stamp: u64, units: u64) {
        let Ok(i) = self.entries.binary_search_by_key(&stamp, |(stamp, _)| *stamp) else { return };
        let (_, size) = &mut self.entries[i];
        let cut = units.min(*size);
        *size -= cut;
        self.total -= cut;
        if *size == 0 {
            self.entries.remove(i);
        }
    }

    /// Takes back up to `units`, newest first.
    pub(crate) fn take_newest(&mut self, mut units: u64) {
        while units > 0
            && let Some((_, size)) = self.entries.back_mut()
        {
            let cut = units.min(*size);
            *size -= cut;
            self.total -= cut;
            units -= cut;
            if *size == 0 {
                self.entries.pop_back();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_nothing_here_has_written_is_read_without_overflow() {
        for (pairs, wait) in [
            ([(1_000, 1), (10, 5)], 0),
            ([(1_000, u64::MAX), (1_001, u64::MAX)], 100),
            ([(u64::MAX, 1), (u64::MAX, 1)], u64::MAX - 1_000),
        ] {
            let mut logs = Logs::new();
            let handle = logs.put(pairs);
            assert_eq!(logs.get(handle).wait(1_000, 100, 1, 1), wait, "{pairs:?}");
        }
    }
}
